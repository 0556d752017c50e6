"""Depthwise convolution as kernels over channels_last tensors: numbers are read once for several rows of the output.

Axes: B batch, C channels, H rows, W columns, K side of the kernel.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor


@dataclass(frozen=True)
class Tiling:
    """How many rows, columns and channels a program has at a time, and by how many warps; all powers of two."""

    rows: int
    columns: int
    channels: int
    warps: int


CONVOLVE = Tiling(4, 16, 64, 4)
WEIGHT_GRADIENT = Tiling(1, 16, 32, 4)  # line by line
_PROGRAMS = 1024  # with about so many a GPU is full


@triton.jit
def convolve_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    out_ptr,
    height,
    width,
    pixel_stride,  # of x: it may be some channels of a larger tensor
    C,
    K: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Program (i, j, b): the i-th tile of ROWS x COLUMNS pixels of image b, the j-th CHANNELS channels.

    weight is (K K, C). Each number of x is loaded once for all rows of the tile that it counts in.
    """
    tiles = tl.cdiv(width, COLUMNS)
    top = tl.program_id(0) // tiles * ROWS
    columns = tl.program_id(0) % tiles * COLUMNS + tl.arange(0, COLUMNS)
    channels = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    image = tl.program_id(2).to(tl.int64) * height * width
    rows = tl.arange(0, ROWS)
    known = channels < C
    out = tl.zeros((ROWS, COLUMNS, CHANNELS), tl.float32)
    if HAS_BIAS:
        out += tl.load(bias_ptr + channels, mask=known, other=0.0).to(tl.float32)[None, None, :]
    for line in range(ROWS + K - 1):
        y = top + line - K // 2
        tap = line - rows  # the kernel's row with which each row of the output meets this line
        meets = (tap >= 0) & (tap < K)
        if (y >= 0) & (y < height):
            for shift in tl.static_range(K):
                x = columns + shift - K // 2
                values = tl.load(
                    x_ptr + (image + y * width + x)[:, None] * pixel_stride + channels[None, :],
                    mask=((x >= 0) & (x < width))[:, None] & known[None, :],
                    other=0.0,
                ).to(tl.float32)
                weights = tl.load(
                    weight_ptr + (tap * K + shift)[:, None] * C + channels[None, :],
                    mask=meets[:, None] & known[None, :],
                    other=0.0,
                ).to(tl.float32)
                out += weights[:, None, :] * values[None, :, :]
    places = image + (top + rows)[:, None] * width + columns[None, :]
    there = ((top + rows) < height)[:, None] & (columns < width)[None, :]
    tl.store(
        out_ptr + places[:, :, None] * C + channels[None, None, :], out, mask=there[:, :, None] & known[None, None, :]
    )


@triton.jit
def weight_gradient_kernel(
    x_ptr,
    gradient_ptr,
    sums_ptr,
    num_lines,  # B H
    lines_each,
    height,
    width,
    pixel_stride,  # of x
    C,
    K: tl.constexpr,
    PAD_K: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    """Program (i, j, t): the i-th `lines_each` lines of all images, the j-th CHANNELS channels, the kernel's row t.

    Its sums go to sums (I, K K, C).
    """
    part, tap = tl.program_id(0).to(tl.int64), tl.program_id(2)
    channels = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    known = channels < C
    shifts = tl.arange(0, PAD_K)
    sums = tl.zeros((PAD_K, COLUMNS, CHANNELS), tl.float32)
    for line in range(part * lines_each, tl.minimum((part + 1) * lines_each, num_lines)):
        y = line % height + tap - K // 2
        if (y >= 0) & (y < height):
            first = (line // height * height + y) * width  # pixel of x's line
            for left in range(0, width, COLUMNS):
                columns = left + tl.arange(0, COLUMNS)
                gradient = tl.load(
                    gradient_ptr + (line * width + columns)[:, None] * C + channels[None, :],
                    mask=(columns < width)[:, None] & known[None, :],
                    other=0.0,
                ).to(tl.float32)
                x = columns[None, :] + shifts[:, None] - K // 2
                inside = (x >= 0) & (x < width) & (shifts < K)[:, None]
                values = tl.load(
                    x_ptr + (first + x)[:, :, None] * pixel_stride + channels[None, None, :],
                    mask=inside[:, :, None] & known[None, None, :],
                    other=0.0,
                ).to(tl.float32)
                sums += values * gradient[None, :, :]
    places = (part * K + tap) * K + shifts
    tl.store(
        sums_ptr + places[:, None] * C + channels[None, :],
        tl.sum(sums, axis=1),
        mask=(shifts < K)[:, None] & known[None, :],
    )


def convolve(x: Tensor, weight: Tensor, bias: Tensor | None, tiling: Tiling = CONVOLVE) -> Tensor:
    """See `depthwise`. The result is channels_last."""
    x, stride = _with_one_pixel_stride(x)
    batch, channels, height, width = x.shape
    side = weight.shape[-1]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    tiles = triton.cdiv(height, tiling.rows) * triton.cdiv(width, tiling.columns)
    convolve_kernel[tiles, triton.cdiv(channels, tiling.channels), batch](
        x,
        weight.reshape(channels, side * side).t().contiguous(),
        weight if bias is None else bias,
        out,
        height,
        width,
        stride,
        channels,
        K=side,
        HAS_BIAS=bias is not None,
        ROWS=tiling.rows,
        COLUMNS=tiling.columns,
        CHANNELS=tiling.channels,
        num_warps=tiling.warps,
    )
    return out


def weight_gradient(x: Tensor, gradient: Tensor, side: int, tiling: Tiling = WEIGHT_GRADIENT) -> Tensor:
    """The gradient of the weight, (C, 1, K, K) in float32, of x and a channels_last gradient, (B, C, H, W) both."""
    x, stride = _with_one_pixel_stride(x)
    batch, channels, height, width = x.shape
    groups = triton.cdiv(channels, tiling.channels)
    num_lines = batch * height
    lines_each = triton.cdiv(num_lines, max(1, _PROGRAMS // (groups * side)))
    parts = triton.cdiv(num_lines, lines_each)
    sums = torch.empty((parts, side * side, channels), dtype=torch.float32, device=x.device)
    weight_gradient_kernel[parts, groups, side](
        x,
        gradient,
        sums,
        num_lines,
        lines_each,
        height,
        width,
        stride,
        channels,
        K=side,
        PAD_K=triton.next_power_of_2(side),
        COLUMNS=tiling.columns,
        CHANNELS=tiling.channels,
        num_warps=tiling.warps,
    )
    return sums.sum(0).t().contiguous().view(channels, 1, side, side)


def _with_one_pixel_stride(x: Tensor) -> tuple[Tensor, int]:
    """x, copied unless a pixel's numbers lie together and pixels at one distance, and that distance."""
    stride = x.stride(3)
    rows = (x.shape[2] * x.shape[3] * stride, 1, x.shape[3] * stride, stride)
    if x.stride() == rows and stride >= x.shape[1]:
        return x, stride
    return x.contiguous(memory_format=torch.channels_last), x.shape[1]
