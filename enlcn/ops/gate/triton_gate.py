"""The gate of gated blocks as kernels over channels_last tensors: no shared memory, no waiting, all sums in registers.

Axes: B batch, J channels, H rows, W columns, K side of the kernel.
"""

# Triton joins tuples but unpacks none.
# ruff: noqa: RUF005
# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def,assignment"
from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Tiling:
    """How many rows, columns and channels a program has at a time, and by how many warps.

    All but the rows are powers of two. A thread keeps one sum for every row (or for every weight) and for each of the
    columns * channels / (32 warps) numbers it has of each: that many registers.
    """

    rows: int
    columns: int
    channels: int
    warps: int
    shifts: int = 1  # of the weight's gradient: how many of the kernel's columns


SPREAD = Tiling(8, 16, 32, 2)  # eight channels a thread: one load of 16 bytes
WEIGHT_GRADIENT = Tiling(8, 16, 32, 4, 4)  # four channels a thread
WEIGHT_GRADIENT_32 = replace(WEIGHT_GRADIENT, shifts=3)  # of float32 numbers, which take more registers
_PROGRAMS = 132 * 3  # so many weight gradients have room on an H200 at a time


@triton.jit
def _with_more(sums, place: tl.constexpr, more):
    """The tuple with `more` added at one place."""
    return sums[:place] + (sums[place] + more,) + sums[place + 1 :]


@triton.jit
def _within(y, height, there):
    """`there`, where line y is in the image; y as a block, since the interpreter ands none with a single truth."""
    y += tl.zeros(there.shape, tl.int32)
    return there & (y >= 0) & (y < height)


@triton.jit
def _line(pointers, y, height, there):
    """The numbers of line y, float32; 0 outside the image."""
    return tl.load(pointers, mask=_within(y, height, there), other=0.0).to(tl.float32)


@triton.jit
def spread_kernel(
    heard_ptr,
    weight_ptr,
    bias_ptr,
    said_ptr,
    gate_ptr,
    out_ptr,
    height,
    width,
    IN_STRIDE: tl.constexpr,  # from pixel to pixel: heard and said are channels of one tensor
    OUT_STRIDE: tl.constexpr,
    J: tl.constexpr,
    K: tl.constexpr,
    GATES: tl.constexpr,  # else nothing is added nor multiplied: out is what was spread
    KEEPS: tl.constexpr,  # the gate
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Program (i, j, b): the i-th tile of ROWS x COLUMNS pixels of image b, the j-th CHANNELS channels.

    weight is (K K, J). For one horizontal shift after the other: its K weights are loaded, and each of the
    ROWS + K - 1 lines, once, for all rows it counts in.
    """
    tiles = tl.cdiv(width, COLUMNS)
    top = tl.program_id(0) // tiles * ROWS
    columns = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)[:, None]
    # In full shape, so that weights, too, come with the layout of the numbers they multiply.
    channels = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :] + 0 * columns
    known = channels < J
    image = tl.program_id(2).to(tl.int64) * height * width
    heard_ptr += image * IN_STRIDE
    sums = (tl.zeros((COLUMNS, CHANNELS), tl.float32),) * ROWS
    for shift in range(K):
        x = columns + shift - K // 2
        there = known & (x >= 0) & (x < width)
        weights = ()
        for tap in tl.static_range(K):
            weight = tl.load(weight_ptr + (tap * K + shift) * J + channels, mask=known, other=0.0)
            weights = weights + (weight,)
        for line in tl.static_range(ROWS + K - 1):
            y = top + line - K // 2
            values = _line(heard_ptr + (y * width + x) * IN_STRIDE + channels, y, height, there)
            for row in tl.static_range(ROWS):
                if row <= line and line < row + K:
                    sums = _with_more(sums, row, weights[line - row].to(tl.float32) * values)
    bias = tl.zeros((COLUMNS, CHANNELS), tl.float32)
    if GATES:
        bias = tl.load(bias_ptr + channels, mask=known, other=0.0).to(tl.float32)
    for row in tl.static_range(ROWS):
        pixels = (top + row) * width + columns
        inside = _within(top + row, height, known & (columns < width))
        out = sums[row]
        if GATES:
            out += bias
            if KEEPS:
                tl.store(gate_ptr + image * J + pixels * J + channels, out, mask=inside)
            out *= tl.load(said_ptr + image * IN_STRIDE + pixels * IN_STRIDE + channels, mask=inside).to(tl.float32)
        tl.store(out_ptr + image * OUT_STRIDE + pixels * OUT_STRIDE + channels, out, mask=inside)


@triton.jit
def weight_gradient_kernel(
    gradient_ptr,  # of the product
    gate_ptr,
    said_ptr,
    heard_ptr,
    said_back_ptr,
    gate_back_ptr,
    sums_ptr,
    num_tiles,
    tiles_each,
    height,
    width,
    IN_STRIDE: tl.constexpr,
    J: tl.constexpr,
    K: tl.constexpr,
    SHIFTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Program (i, j, s): the i-th `tiles_each` tiles of all images, the j-th CHANNELS channels, the s-th SHIFTS shifts.

    The gradients of said and of the gate are written on the way; the sums for the K K weights and the bias go to
    sums (I, K K + 1, J).
    """
    part, first_shift = tl.program_id(0), tl.program_id(2) * SHIFTS
    across = tl.cdiv(width, COLUMNS)
    tiles = tl.cdiv(height, ROWS) * across  # of one image
    offsets = tl.arange(0, COLUMNS)[:, None]
    channels = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)[None, :] + 0 * offsets
    known = channels < J
    bias = tl.zeros((COLUMNS, CHANNELS), tl.float32)
    sums = (tl.zeros((COLUMNS, CHANNELS), tl.float32),) * (K * SHIFTS)
    for tile in range(part * tiles_each, tl.minimum((part + 1) * tiles_each, num_tiles)):
        image = (tile // tiles).to(tl.int64) * height * width
        top = tile % tiles // across * ROWS
        columns = tile % across * COLUMNS + offsets
        inside = known & (columns < width)
        given = ()
        for row in tl.static_range(ROWS):
            y = top + row
            ours = image * J + (y * width * J + (columns * J + channels))
            theirs = image * IN_STRIDE + (y * width * IN_STRIDE + (columns * IN_STRIDE + channels))
            gradient = _line(gradient_ptr + ours, y, height, inside)
            back = gradient * _line(said_ptr + theirs, y, height, inside)
            given = given + (back,)
            if first_shift == 0:
                bias += back
                here = _within(y, height, inside)
                tl.store(gate_back_ptr + ours, back, mask=here)
                tl.store(said_back_ptr + theirs, gradient * _line(gate_ptr + ours, y, height, inside), mask=here)
        lines = heard_ptr + (image + (top - K // 2) * width) * IN_STRIDE
        for place in tl.static_range(SHIFTS):
            x = columns + first_shift + place - K // 2
            there = known & (x >= 0) & (x < width)
            for line in tl.static_range(ROWS + K - 1):
                y = top + line - K // 2
                values = _line(lines + line * width * IN_STRIDE + (x * IN_STRIDE + channels), y, height, there)
                for row in tl.static_range(ROWS):
                    if row <= line and line < row + K:
                        sums = _with_more(sums, (line - row) * SHIFTS + place, given[row] * values)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    sums_ptr += part * (K * K + 1) * J + channel
    for tap in tl.static_range(K):
        for place in tl.static_range(SHIFTS):
            shift = first_shift + place
            total = tl.sum(sums[tap * SHIFTS + place], axis=0)
            tl.store(sums_ptr + (tap * K + shift) * J, total, mask=_within(shift, K, channel < J))
    if first_shift == 0:
        tl.store(sums_ptr + K * K * J, tl.sum(bias, axis=0), mask=channel < J)


def forward(
    expanded: Tensor, weight: Tensor, bias: Tensor, *, keeps: bool, tiling: Tiling = SPREAD
) -> tuple[Tensor, Tensor]:
    """See `gate`: what it returns, and the gate, (B, J, H, W), channels_last both. The gate has no rows unless kept."""
    expanded = expanded.contiguous(memory_format=torch.channels_last)
    batch, twice, height, width = expanded.shape
    out = _image(expanded, (batch, twice // 2, height, width))
    kept = _image(expanded, (batch, twice // 2, height if keeps else 0, width))
    said, heard = expanded.chunk(2, dim=1)
    _spread(heard, weight, out, tiling, bias=bias, said=said, kept=kept if keeps else None)
    return out, kept


def backward(
    gradient: Tensor,
    expanded: Tensor,
    gate: Tensor,
    weight: Tensor,
    *,
    tiling: Tiling | None = None,
    spread: Tiling = SPREAD,
) -> tuple[Tensor, Tensor]:
    """Gradients of expanded, (B, 2J, H, W), and of the K K weights and, last, the bias, (K K + 1, J) in float32."""
    expanded = expanded.contiguous(memory_format=torch.channels_last)
    gradient = gradient.contiguous(memory_format=torch.channels_last)
    tiling = tiling or (WEIGHT_GRADIENT_32 if gradient.dtype == torch.float32 else WEIGHT_GRADIENT)
    batch, channels, height, width = gradient.shape
    side = weight.shape[-1]
    back = _image(expanded, expanded.shape)
    said_back, heard_back = back.chunk(2, dim=1)
    said, heard = expanded.chunk(2, dim=1)
    gate_back = _image(expanded, gradient.shape)
    groups, shifts = triton.cdiv(channels, tiling.channels), min(tiling.shifts, side)
    num_tiles = batch * triton.cdiv(height, tiling.rows) * triton.cdiv(width, tiling.columns)
    tiles_each = triton.cdiv(num_tiles, max(1, _PROGRAMS // (groups * triton.cdiv(side, shifts))))
    parts = triton.cdiv(num_tiles, tiles_each)
    sums = torch.empty((parts, side * side + 1, channels), dtype=torch.float32, device=gradient.device)
    weight_gradient_kernel[parts, groups, triton.cdiv(side, shifts)](
        gradient,
        gate,
        said,
        heard,
        said_back,
        gate_back,
        sums,
        num_tiles,
        tiles_each,
        height,
        width,
        IN_STRIDE=2 * channels,
        J=channels,
        K=side,
        SHIFTS=shifts,
        ROWS=tiling.rows,
        COLUMNS=tiling.columns,
        CHANNELS=tiling.channels,
        num_warps=tiling.warps,
    )
    # What a pixel gave to those around it comes back from them: the same convolution, turned round.
    _spread(gate_back, weight.flip((2, 3)), heard_back, spread)
    return back, sums.sum(0)


def _spread(
    heard: Tensor,
    weight: Tensor,
    out: Tensor,
    tiling: Tiling,
    *,
    bias: Tensor | None = None,
    said: Tensor | None = None,
    kept: Tensor | None = None,
) -> None:
    """Launch `spread_kernel`, which gates where there is something said."""
    batch, channels, height, width = heard.shape
    side = weight.shape[-1]
    tiles = triton.cdiv(height, tiling.rows) * triton.cdiv(width, tiling.columns)
    spread_kernel[tiles, triton.cdiv(channels, tiling.channels), batch](
        heard,
        weight.reshape(channels, side * side).t().contiguous(),
        weight if bias is None else bias,
        heard if said is None else said,
        out if kept is None else kept,
        out,
        height,
        width,
        IN_STRIDE=heard.stride(3),
        OUT_STRIDE=out.stride(3),
        J=channels,
        K=side,
        GATES=said is not None,
        KEEPS=kept is not None,
        ROWS=tiling.rows,
        COLUMNS=tiling.columns,
        CHANNELS=tiling.channels,
        num_warps=tiling.warps,
    )


def _image(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=torch.channels_last)
