"""Launching the gate's kernels: strips for all multiprocessors, planes in, planes out.

Axes: B batch, J channels of each half, H rows, W columns, K side of the kernel.
"""

# mypy: disable-error-code="import-untyped,import-not-found"
import os

import torch
import triton
import triton.language as tl
from torch import Tensor

from enlcn.ops.gate.triton_gate import (
    PLACES,
    TILE,
    WINDOW,
    add_up_kernel,
    spread_kernel,
    weight_gradient_kernel,
)

_PROGRAMS = 132 * 16  # so many warps keep an H200 busy
_SHORTEST_STRIP = 16  # rows: those around a strip are read, too
_TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


def forward(
    expanded: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, *, keeps: bool, strips: int | None = None
) -> tuple[Tensor, Tensor]:
    """See `gate`: what it returns, and the gate, (B, J, H, W), planes both. The gate has no rows unless kept."""
    expanded = in_planes(expanded)
    offset, weight, bias = offset.contiguous(), weight.contiguous(), bias.contiguous()
    batch, twice, height, width = expanded.shape
    out = planes(expanded, batch, twice // 2, height, width)
    kept = planes(expanded, batch, twice // 2, height if keeps else 0, width)
    _spread(expanded[:, twice // 2 :], weight, out, strips, (bias, expanded, offset, kept if keeps else out), keeps)
    return out, kept


def backward(
    gradient: Tensor, expanded: Tensor, gate: Tensor, offset: Tensor, weight: Tensor, *, strips: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients: of expanded, (B, 2J, H, W), planes; in float32 of offset and bias, (J, 2), and of weight, (J, K K)."""
    expanded, gradient, gate = in_planes(expanded), in_planes(gradient), in_planes(gate)
    offset, weight = offset.contiguous(), weight.contiguous()
    batch, channels, height, width = gradient.shape
    side = weight.shape[-1]
    back = planes(expanded, batch, 2 * channels, height, width)
    gate_back = planes(expanded, batch, channels, height, width)
    tiles, parts, strips, rows = _division(gradient, strips)
    sums = gradient.new_empty((parts, channels, side * WINDOW.value + 2, TILE.value), dtype=torch.float32)
    weight_gradient_kernel[parts, channels](
        gradient,
        gate,
        expanded,
        offset,
        expanded[:, channels:],
        back,
        gate_back,
        sums,
        batch * strips * tiles,
        tiles,
        strips,
        rows,
        height,
        width,
        expanded.stride(1),
        expanded.stride(0),
        gradient.stride(1),
        gradient.stride(0),
        channels,
        K=side,
        OPERANDS=_operands(expanded),
        num_warps=1,
    )
    # What a pixel gave to those around it comes back from them: the same convolution, turned round.
    _spread(gate_back, weight, back[:, channels:], strips)
    of_shifts, of_weight = (sums.new_empty(size) for size in ((channels, 2), (channels, side * side)))
    add_up_kernel[channels, side + 1](sums, of_weight, of_shifts, parts, channels, K=side, num_warps=1)
    return back, of_shifts, of_weight


def _spread(
    heard: Tensor,
    weight: Tensor,
    out: Tensor,
    strips: int | None,
    gated: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
    keeps: bool = False,
) -> None:
    """Launch `spread_kernel`: with (bias, said, offset, gate) to gate, without them turned round."""
    tiles, parts, strips, rows = _division(heard, strips)
    bias, said, offset, kept = gated or (weight, heard, weight, out)
    batch, channels, height, width = heard.shape
    spread_kernel[parts, channels](
        heard,
        weight,
        bias,
        said,
        offset,
        kept,
        out,
        batch * strips * tiles,
        tiles,
        strips,
        rows,
        height,
        width,
        heard.stride(1),
        heard.stride(0),
        out.stride(1),
        out.stride(0),
        K=weight.shape[-1],
        TURNED=gated is None,
        GATES=gated is not None,
        KEEPS=keeps,
        OPERANDS=_operands(heard),
        num_warps=1,
    )


def _division(image: Tensor, strips: int | None) -> tuple[int, int, int, int]:
    """Tiles across, programs a channel, strips and their rows; `strips` is asked for, or None."""
    batch, channels, height, width = image.shape
    tiles = triton.cdiv(width, TILE.value)
    if strips is None:
        wanted = triton.cdiv(_PROGRAMS * PLACES.value, channels * batch * tiles)
        strips = max(1, min(wanted, height // _SHORTEST_STRIP))
    rows = triton.cdiv(height, strips)
    strips = triton.cdiv(height, rows)
    return tiles, triton.cdiv(batch * strips * tiles, PLACES.value), strips, rows


def in_planes(image: Tensor) -> Tensor:
    """The image as `planes` lies, copied where it does not yet."""
    return image.transpose(0, 1).contiguous().transpose(0, 1)


def planes(like: Tensor, batch: int, channels: int, height: int, width: int) -> Tensor:
    """An empty (B, J, H, W) with each channel of all images in one piece: rows of the matrix that products give."""
    return like.new_empty((channels, batch, height, width)).transpose(0, 1)


def _operands(image: Tensor) -> tl.dtype:
    """What is multiplied; the interpreter multiplies bfloat16 wrongly."""
    return tl.float32 if os.environ.get("TRITON_INTERPRET") == "1" else _TYPES[image.dtype]
