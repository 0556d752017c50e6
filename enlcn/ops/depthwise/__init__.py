"""A convolution of each channel by itself, with large kernels, and the one place where kernels or PyTorch is chosen.

Axes: B batch, C channels, H rows, W columns, K side of the kernel.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from enlcn.ops.kernel_support import kernels_run_on

BACKENDS = ("auto", "naive", "triton")
MAX_SIDE = 15
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def depthwise(x: Tensor, weight: Tensor, bias: Tensor | None, *, backend: str = "auto") -> Tensor:
    """Every channel convolved with a kernel of its own, zeros beyond the edges.

    >>> import torch
    >>> depthwise(torch.rand(1, 8, 5, 6), torch.rand(8, 1, 7, 7), torch.zeros(8)).shape
    torch.Size([1, 8, 5, 6])

    Args:
        x: (B, C, H, W); channels_last is fastest, also as some channels of a larger such tensor.
        weight: (C, 1, K, K), K odd.
        bias: (C,) or None.
        backend: "auto", "naive" or "triton".

    Returns:
        (B, C, H, W) in x's type (under autocast, by PyTorch's own convolution: in autocast's).
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; choose from {', '.join(BACKENDS)}")
    if backend == "triton" or (backend == "auto" and can_run(x, weight)):
        from enlcn.ops.depthwise.operators import depthwise_operator

        out: Tensor = depthwise_operator(x, weight, bias)
        return out
    return naive(x, weight, bias)


def naive(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """As `depthwise`, by PyTorch's convolution."""
    return conv2d(x, weight, bias, padding=weight.shape[-1] // 2, groups=x.shape[1])


def can_run(x: Tensor, weight: Tensor) -> bool:
    """Whether the kernels take this input: on a CUDA device, or in Triton's interpreter."""
    if x.dtype not in _DTYPES or x.numel() == 0 or weight.shape[-1] > MAX_SIDE:
        return False
    return kernels_run_on(x.device)


__all__ = ["BACKENDS", "can_run", "depthwise", "naive"]
