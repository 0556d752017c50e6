"""One process or many: what torchrun tells each, and how they agree."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from enlcn.device_names import usable_device
from enlcn.errors import UserError


@dataclass(frozen=True)
class Ranks:
    """Which process this is.

    Attributes:
        rank, world_size: number of this process, and how many there are.
        device: the one it computes on.
    """

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and talks."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        """Whether there is no other process."""
        return self.world_size == 1

    def wrap(self, module: nn.Module) -> nn.Module:
        """`module`, averaging its gradients over all processes in the backward pass."""
        if self.is_alone:
            return module
        devices = [self.device.index] if self.device.type == "cuda" else None
        # F is drawn alike everywhere, from the seed: broadcasting buffers each step would only cost time.
        return DistributedDataParallel(module, device_ids=devices, broadcast_buffers=False)

    def average(self, values: Tensor) -> Tensor:
        """The mean of `values` over all processes."""
        if not self.is_alone:
            dist.all_reduce(values)
            values /= self.world_size
        return values

    def largest(self, values: Tensor) -> Tensor:
        """The elementwise maximum of `values` over all processes."""
        if not self.is_alone:
            dist.all_reduce(values, dist.ReduceOp.MAX)
        return values

    def from_main(self, value: float) -> float:
        """The main process's `value`, on every process."""
        if self.is_alone:
            return value
        shared = torch.tensor(value, dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return shared.item()

    def wait_for_all(self) -> None:
        """Return when every process has come here."""
        if not self.is_alone:
            dist.barrier()


@contextmanager
def processes(device: str) -> Iterator[Ranks]:
    """The ranks of this job as torchrun's environment gives them: one where there is no torchrun.

    Args:
        device: "auto" takes CUDA where it is; under torchrun each process takes the GPU of its local rank.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    chosen = choose_device(device, int(os.environ.get("LOCAL_RANK", "0")) if world_size > 1 else None)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if world_size == 1:
        yield Ranks(0, 1, chosen)
        return
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield Ranks(rank, world_size, chosen)
    finally:
        dist.destroy_process_group()


def choose_device(name: str, local_rank: int | None = None) -> torch.device:
    """The device called `name`, with its number; "auto" is CUDA where there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{local_rank or 0}"
    device = usable_device(name, also=("auto",))
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device '{name}' cannot be trained on; choose from auto, cpu, cuda, cuda:1")
    return device
