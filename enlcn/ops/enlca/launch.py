"""How the ENLCA kernels are laid on a GPU: tile sizes, warps, number types, and the first choice that fits.

The ladders are laid out for an NVIDIA H200 (227 KB of shared memory and 255 registers a thread, one or two programs
on a multiprocessor). A card with less takes the next step down: what does not fit says so when it is loaded, before
anything runs. Where no step fits, `plain_passes` takes over (`benchmarks/kernel_resources.py` tells where).
"""

# mypy: disable-error-code="import-untyped,import-not-found"

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.errors import OutOfResources

Result = TypeVar("Result")
INT32_LIMIT = 2**31
# Enough programs for loops and sums of several, where there are no multiprocessors to count.
_INTERPRETED_MULTIPROCESSORS = 3


@dataclass(frozen=True)
class Tiling:
    """One way to cut the work.

    Attributes:
        block_n: positions per tile.
        block_c: channels per program (pass 1) or per step (pass 2).
        warps: warps per program.
        stages: tiles in flight; 1 for no software pipeline.
        hold: keep the mean values in shared memory from tile to tile (pass 2; at most two steps).
        per_multiprocessor: programs on each multiprocessor.
    """

    block_n: int
    block_c: int
    warps: int
    stages: int = 1
    hold: bool = False
    per_multiprocessor: int = 1


@dataclass(frozen=True)
class Sizes:
    """The sizes a kernel is compiled for."""

    channels: int
    width: int
    features: int

    @property
    def padded(self) -> tuple[int, int, int]:
        """C, D and M as powers of two that the matrix units take."""
        return _power_of_two(self.channels), _power_of_two(self.width), _power_of_two(self.features)

    @property
    def constants(self) -> dict[str, int]:
        """What every kernel over x takes as compile-time constants."""
        pad_c, pad_d, pad_m = self.padded
        own = {"C": self.channels, "D": self.width, "M": self.features}
        return {**own, "PAD_C": pad_c, "PAD_D": pad_d, "PAD_M": pad_m}


def _shortest(pad_c: int) -> Tiling:
    """The last of every ladder, for cards with 99 KB of shared memory."""
    return Tiling(16, min(pad_c, 32), 4)


def summarise_tilings(sizes: Sizes, dtype: torch.dtype) -> list[Tiling]:
    """Pass 1, best first. Its M x block_c sums live in registers: at most 128 of a thread's 255."""
    pad_c, _, pad_m = sizes.padded
    block_c = min(pad_c, 32768 // pad_m)
    warps = 8 if pad_m * block_c > 8192 else 4
    if dtype == torch.float32:
        half = min(block_c, 128)
        return [Tiling(32, block_c, warps), *(Tiling(n, half, warps) for n in (64, 32, 16)), _shortest(pad_c)]
    largest = 128 if pad_m <= 128 else 64
    stages = 2 if block_c == pad_c else 1
    ladder = [Tiling(n, block_c, warps, s) for n, s in ((largest, stages), (64, stages), (64, 1), (32, 1), (16, 1))]
    return list(dict.fromkeys([*ladder, _shortest(pad_c)]))


def apply_tilings(sizes: Sizes, dtype: torch.dtype) -> list[Tiling]:
    """Pass 2, best first."""
    pad_c, _, pad_m = sizes.padded
    if dtype == torch.float32:
        return [*(Tiling(n, min(pad_c, 64), 8) for n in (128, 64, 32)), _shortest(pad_c)]
    if pad_c <= 64 and pad_m <= 128:
        return [Tiling(64, pad_c, 4, stages=2, hold=True, per_multiprocessor=2), Tiling(32, pad_c, 4), _shortest(pad_c)]
    if pad_m > 128:
        return [*(Tiling(n, min(pad_c, 64), 8) for n in (64, 32)), _shortest(pad_c)]
    return [Tiling(64, min(pad_c, 64), 4, per_multiprocessor=2), Tiling(32, 32, 4), _shortest(pad_c)]


def query_gradient_tilings(sizes: Sizes, dtype: torch.dtype) -> list[Tiling]:
    """Backward through the queries, best first. Three (n, M) arrays live at once: short tiles fit the registers."""
    pad_c, _, pad_m = sizes.padded
    if pad_m > 128:
        return [Tiling(16, min(pad_c, 32), 8), _shortest(pad_c)]
    if pad_c <= 64:
        return [Tiling(32, pad_c, 4, per_multiprocessor=2), Tiling(16, pad_c, 4), _shortest(pad_c)]
    return [*(Tiling(n, 64 if dtype == torch.float32 else 128, 8) for n in (32, 16)), _shortest(pad_c)]


def key_gradient_tilings(sizes: Sizes, dtype: torch.dtype) -> list[Tiling]:
    """Backward through the keys, best first."""
    pad_c, _, pad_m = sizes.padded
    step = min(pad_c, 64)
    if dtype == torch.float32 or pad_m > 128:
        return [*(Tiling(n, step, 8) for n in (32, 16) if n == 16 or pad_m <= 128), _shortest(pad_c)]
    if pad_c <= 64:
        # Triton 3.6 compiles this kernel wrongly for 64 rows of so few channels (out-of-bounds reads, NaN).
        return [Tiling(32, step, 4), Tiling(16, step, 4), _shortest(pad_c)]
    return [Tiling(128, step, 8), Tiling(32, step, 8), Tiling(16, step, 8), _shortest(pad_c)]


def number_types(dtype: torch.dtype) -> dict[str, Any]:
    """Compile-time types for x of `dtype`; see triton_tiles."""
    narrow = dtype != torch.float32
    # The interpreter multiplies bfloat16 wrongly, so there the large products stay in float32.
    dot = tl.bfloat16 if narrow and not interpreted() else tl.float32
    return {"DOT": dot, "LOGIT": tl.float16 if narrow else tl.float32, "PRECISION": "tf32"}


def operand_dtype(dtype: torch.dtype) -> torch.dtype:
    """How the mean values of x of `dtype` are kept between the passes."""
    return torch.float32 if dtype == torch.float32 else torch.bfloat16


@cache
def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter (TRITON_INTERPRET=1 when it was first imported)."""
    return not isinstance(_probe, triton.JITFunction)


@triton.jit
def _probe() -> None:
    pass


@cache
def multiprocessors(device: torch.device) -> int:
    """How many programs of one per multiprocessor run at once."""
    if device.type != "cuda":
        return _INTERPRETED_MULTIPROCESSORS
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def num_programs(tiling: Tiling, num_positions: int, others: int, device: torch.device) -> int:
    """Programs that share an image's tiles, when `others` images and channel parts run beside it."""
    tiles = triton.cdiv(num_positions, tiling.block_n)
    return int(max(1, min(tiles, multiprocessors(device) * tiling.per_multiprocessor // others)))


def token_strides(x: Tensor) -> tuple[int, int, int]:
    """Strides of image, position and channel of (B, C, H, W) as (B, N, C); see `with_one_position_stride`."""
    return x.stride(0), x.stride(2) if x.shape[3] == 1 else x.stride(3), x.stride(1)


def with_one_position_stride(x: Tensor) -> Tensor:
    """x itself where rows follow each other at one stride, as in both memory formats; else a copy."""
    height, width = x.shape[2:]
    if height == 1 or width == 1 or x.stride(2) == width * x.stride(3):
        return x
    return x.contiguous()


def is_wide(tiling: Tiling, sizes: Sizes, *tensors: Tensor) -> bool:
    """Whether offsets inside one tile of any of these (B, C, H, W) need 64 bits."""
    reach = 0
    for tensor in tensors:
        _, stride_n, stride_c = token_strides(tensor)
        reach = max(reach, tiling.block_n * stride_n + sizes.padded[0] * stride_c)
    return reach >= INT32_LIMIT


_chosen: dict[tuple[object, ...], int] = {}
# What was asked for and what there is, not the error itself: that would keep the launchers' tensors.
_without_room: dict[tuple[object, ...], tuple[int, int, str]] = {}


def run_first_that_fits(key: tuple[object, ...], tilings: Sequence[Tiling], run: Callable[[Tiling], None]) -> Tiling:
    """Run with the first tiling the card has room for, and remember which of them that was, or that none was."""
    key = (*key, *tilings)
    refusal = _without_room.get(key)
    first = len(tilings) if refusal else _chosen.get(key, 0)
    for step, tiling in enumerate(tilings[first:], start=first):
        try:
            run(tiling)
        except OutOfResources as error:
            refusal = (error.required, error.limit, error.name)
            continue
        _chosen[key] = step
        return tiling
    assert refusal is not None, "no tiling given"
    _without_room[key] = refusal
    raise OutOfResources(*refusal)


def where_it_fits(by_kernel: Callable[..., Result], plainly: Callable[..., Result], *arguments: Any) -> Result:
    """by_kernel(*arguments), or plainly(*arguments) where the card has no room for the kernel in any tiling."""
    with suppress(OutOfResources):
        return by_kernel(*arguments)
    return plainly(*arguments)  # outside: the error would keep what the launcher had made


def _power_of_two(size: int) -> int:
    return max(16, int(triton.next_power_of_2(size)))
