"""What follows a convolution, in one pass over its output: bias with ReLU, with a residual, with a pixel shuffle.

For inference: each works in place or on a fresh tensor and has no gradient. Kernels on CUDA (and in Triton's
interpreter), plain PyTorch elsewhere. The convolution itself is called without its bias.

Axes: B batch, C channels, H rows, W columns, r shuffle factor.
"""

import torch
from torch import Tensor

from enlcn.ops.kernel_support import kernels_run_on

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def bias_relu_(y: Tensor, bias: Tensor) -> Tensor:
    """relu(y + bias), in place.

    Args:
        y: (B, C, H, W).
        bias: (C,).
    """
    if _by_kernel(y):
        from enlcn.ops.epilogues import triton_epilogues

        return triton_epilogues.finish_(y, bias, None, relu=True)
    return y.add_(bias.view(1, -1, 1, 1)).relu_()


def bias_residual_(y: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    """residual + y + bias, in place of y.

    Args:
        y, residual: (B, C, H, W), of one memory format.
        bias: (C,).
    """
    if _by_kernel(y) and y.stride() == residual.stride():
        from enlcn.ops.epilogues import triton_epilogues

        return triton_epilogues.finish_(y, bias, residual, relu=False)
    return y.add_(bias.view(1, -1, 1, 1)).add_(residual)


def bias_shuffle(y: Tensor, bias: Tensor, factor: int) -> Tensor:
    """y + bias, its channels laid out as r x r pixels each.

    Unlike nn.PixelShuffle, channels come as (r, r, C): a pixel's C numbers lie together and move together.
    `shuffled_channels` brings a convolution's weights into that order.

    Args:
        y: (B, r r C, H, W).
        bias: (r r C,).
        factor: r.

    Returns:
        (B, C, rH, rW), channels_last.
    """
    if _by_kernel(y):
        from enlcn.ops.epilogues import triton_epilogues

        return triton_epilogues.shuffle(y, bias, factor)
    batch, channels, height, width = y.shape
    pixels = (y + bias.view(1, -1, 1, 1)).permute(0, 2, 3, 1).unflatten(3, (factor, factor, -1))  # (B, H, W, r, r, C)
    image = pixels.permute(0, 1, 3, 2, 4, 5).reshape(batch, height * factor, width * factor, channels // factor**2)
    return image.permute(0, 3, 1, 2)


def shuffled_channels(weight: Tensor, factor: int) -> Tensor:
    """A weight or bias whose outputs are in nn.PixelShuffle's order (C, r, r), in the order (r, r, C)."""
    return weight.unflatten(0, (-1, factor * factor)).transpose(0, 1).flatten(0, 1).contiguous()


def _by_kernel(y: Tensor) -> bool:
    if y.dtype not in _DTYPES or not y.is_contiguous(memory_format=torch.channels_last):
        return False
    return kernels_run_on(y.device)
