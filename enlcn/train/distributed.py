"""One process or many: what torchrun tells each, and how they agree."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

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
    """The device called `name`; "auto" is CUDA where there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"unknown device '{name}'; give cpu, cuda, cuda:1, mps …") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError("there is no CUDA device here; pass --device cpu")
        index = device.index if device.index is not None else local_rank or 0
        if index >= torch.cuda.device_count():
            raise UserError(f"there is no cuda:{index}; this machine has {torch.cuda.device_count()} GPUs")
        device = torch.device("cuda", index)
    return device
