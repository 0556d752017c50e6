"""The epilogues as kernels over channels_last tensors: rows are pixels, a tile is BLOCK_N pixels by all channels."""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"
import torch
import triton
import triton.language as tl
from torch import Tensor

_TILE = 4096  # numbers a program works on: 16 for each of 256 threads


@triton.jit
def finish_kernel(
    y_ptr,
    bias_ptr,
    residual_ptr,
    num_pixels,
    C: tl.constexpr,
    PAD_C: tl.constexpr,
    BLOCK_N: tl.constexpr,
    RELU: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
):
    """y <- y + bias, then relu or + residual. Program i: pixels i BLOCK_N onwards."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    channels = tl.arange(0, PAD_C)
    mask = (rows < num_pixels)[:, None] & (channels < C)[None, :]
    offsets = rows[:, None] * C + channels[None, :]
    bias = tl.load(bias_ptr + channels, mask=channels < C, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32) + bias[None, :]
    if RELU:
        y = tl.maximum(y, 0.0)
    if HAS_RESIDUAL:
        y += tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, y, mask=mask)


@triton.jit
def shuffle_kernel(
    y_ptr,
    bias_ptr,
    out_ptr,
    num_pixels,
    width,
    C: tl.constexpr,  # of the output
    PAD_C: tl.constexpr,
    FACTOR: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Program (i, g): pixels i BLOCK_N onwards of the input, the g-th of each one's r x r output pixels."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    group = tl.program_id(1)
    channels = tl.arange(0, PAD_C)
    mask = (rows < num_pixels)[:, None] & (channels < C)[None, :]
    bias = tl.load(bias_ptr + group * C + channels, mask=channels < C, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + (rows * (FACTOR * FACTOR) + group)[:, None] * C + channels[None, :], mask=mask, other=0.0)
    line = rows // width * FACTOR + group // FACTOR  # over all images: they follow each other
    column = rows % width * FACTOR + group % FACTOR
    pixel = line * (width * FACTOR) + column
    tl.store(out_ptr + pixel[:, None] * C + channels[None, :], y.to(tl.float32) + bias[None, :], mask=mask)


def finish_(y: Tensor, bias: Tensor, residual: Tensor | None, *, relu: bool) -> Tensor:
    """See `bias_relu_` and `bias_residual_`."""
    batch, channels, height, width = y.shape
    pad_c, block_n = _tile(channels)
    num_pixels = batch * height * width
    finish_kernel[(triton.cdiv(num_pixels, block_n),)](
        y,
        bias,
        y if residual is None else residual,
        num_pixels,
        C=channels,
        PAD_C=pad_c,
        BLOCK_N=block_n,
        RELU=relu,
        HAS_RESIDUAL=residual is not None,
        num_warps=8,
    )
    return y


def shuffle(y: Tensor, bias: Tensor, factor: int) -> Tensor:
    """See `bias_shuffle`."""
    batch, channels, height, width = y.shape
    channels //= factor**2
    out = torch.empty(
        (batch, channels, height * factor, width * factor),
        dtype=y.dtype,
        device=y.device,
        memory_format=torch.channels_last,
    )
    pad_c, block_n = _tile(channels)
    num_pixels = batch * height * width
    shuffle_kernel[triton.cdiv(num_pixels, block_n), factor**2](
        y, bias, out, num_pixels, width, C=channels, PAD_C=pad_c, FACTOR=factor, BLOCK_N=block_n, num_warps=8
    )
    return out


def _tile(channels: int) -> tuple[int, int]:
    pad_c = int(triton.next_power_of_2(channels))
    return pad_c, max(1, _TILE // pad_c)
