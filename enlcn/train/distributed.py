"""One process or many: what torchrun tells each, and how they agree."""

import gc
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from enlcn.device_names import usable_device
from enlcn.errors import UserError

# What it is called since torch 2.13, and was before.
_SYNCING_BUFFERS = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
    else "broadcast_buffers"
)
# The others wait while the main process decodes the training images.
_LONGEST_WAIT = timedelta(hours=2)


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
        options: dict[str, Any] = {_SYNCING_BUFFERS: False}
        return DistributedDataParallel(module, device_ids=devices, **options)

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
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=_LONGEST_WAIT)
    try:
        yield Ranks(rank, world_size, chosen)
    finally:
        # The group's threads end with the last that holds it. They must not outlive Python, which would abort: they
        # let go of tensors.
        gc.collect()
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
