"""A 3x3 convolution to few channels as one matrix product and nine shifted sums, from 16 bits to float32.

Libraries give 16-bit results for 16-bit input, and are slow at few output channels. Here every position is multiplied
by all nine taps at once (a product with 9 O columns, accumulated and kept in float32), and each output adds up what its
neighbours hold for it. `naive` is the convolution itself.

Axes: B batch, C channels in, O channels out, H rows, W columns, T = 9 O taps, padded to a multiple of 8.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from enlcn.ops.precision import no_autocast
from enlcn.ops.second_derivatives import differentiable_gradients

_GROUP = 8  # columns that matrix units take at a time


def naive(x: Tensor, weight: Tensor) -> Tensor:
    """The convolution in the weight's precision. (B, C, H, W), (O, C, 3, 3) -> (B, O, H, W)."""
    return conv2d(x.to(weight.dtype), weight, padding=1)


def narrow_conv3x3(x: Tensor, weight: Tensor) -> Tensor:
    """As `naive`, with the operands in x's 16 bits and sums and results in float32.

    Args:
        x: (B, C, H, W) in 16 bits; channels_last saves a copy.
        weight: (O, C, 3, 3), O at most tens: room for 9 O numbers a pixel is taken for a while.

    Returns:
        (B, O, H, W), float32.
    """
    with no_autocast(x.device):
        out: Tensor = _NarrowConvolution.apply(x, weight)
    return out


def suits(x: Tensor) -> bool:
    """Whether `narrow_conv3x3` is the way for x: elsewhere a convolution in float32 does."""
    return x.is_cuda and x.dtype in (torch.bfloat16, torch.float16)


class _NarrowConvolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        outputs = weight.shape[0]
        num_taps = 9 * outputs
        taps = weight.permute(1, 2, 3, 0).reshape(channels, num_taps)  # (C, T)
        taps = pad(taps, (0, -num_taps % _GROUP)).to(x.dtype)
        held = _product(_rows(x), taps).view(batch, height, width, -1)
        # Moved tap by tap: a padded copy of all that is held would take as much room again.
        out = sum(
            _moved(held[..., tap * outputs : (tap + 1) * outputs], rows=tap // 3 - 1, columns=tap % 3 - 1)
            for tap in range(9)
        )
        assert isinstance(out, Tensor)
        ctx.save_for_backward(x, taps, weight)
        ctx.weight_dtype, ctx.outputs = weight.dtype, outputs
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, taps, weight = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # the gradient is to be differentiated itself
            by_naive = partial(naive, x, weight)
            by_x, by_weight = differentiable_gradients(by_naive, (x, weight), ctx.needs_input_grad, gradient)
            return by_x, by_weight
        batch, channels, height, width = x.shape
        outputs = ctx.outputs
        around = pad(gradient.permute(0, 2, 3, 1).to(x.dtype), (0, 0, 1, 1, 1, 1))
        shifted = [
            around[:, 2 - tap // 3 : 2 - tap // 3 + height, 2 - tap % 3 : 2 - tap % 3 + width] for tap in range(9)
        ]
        missing = taps.shape[1] - 9 * outputs
        if missing:
            shifted.append(around.new_zeros(batch, height, width, missing))
        held = torch.cat(shifted, dim=-1).view(-1, taps.shape[1])  # (B H W, T)
        dx = (held @ taps.mT).view(batch, height, width, channels).permute(0, 3, 1, 2)
        dtaps = _product(held.mT, _rows(x))[: 9 * outputs]  # (T, C)
        dweight = dtaps.view(3, 3, outputs, channels).permute(2, 3, 0, 1)
        return dx, dweight.to(ctx.weight_dtype)


def _moved(held: Tensor, *, rows: int, columns: int) -> Tensor:
    """What lies so many rows and columns further, zero outside. (B, H, W, O) -> (B, H, W, O)."""
    return pad(held, (0, 0, -columns, columns, -rows, rows))


def _rows(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B H W, C)."""
    return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])


def _product(a: Tensor, b: Tensor) -> Tensor:
    """A product of 16-bit matrices in float32."""
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()
