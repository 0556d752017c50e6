"""One half of the channels, spread by large depthwise kernels, multiplies the other: by kernels or by PyTorch.

Axes: B batch, J channels of each half, H rows, W columns, K side of the kernel.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from enlcn.ops.kernel_support import kernels_run_on

BACKENDS = ("auto", "naive", "triton")
MAX_SIDE = 7  # a thread of the kernels keeps a sum for every weight
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def gate(expanded: Tensor, weight: Tensor, bias: Tensor, *, backend: str = "auto") -> Tensor:
    """said * (spread(heard) + bias), with (said, heard) = expanded; spread: each channel convolved by itself.

    >>> import torch
    >>> gate(torch.rand(1, 16, 5, 6), torch.rand(8, 1, 7, 7), torch.zeros(8)).shape
    torch.Size([1, 8, 5, 6])

    Args:
        expanded: (B, 2J, H, W), what is said before what is heard; channels_last is fastest.
        weight: (J, 1, K, K), K odd; there are zeros beyond the edges.
        bias: (J,).
        backend: "auto", "naive" or "triton".

    Returns:
        (B, J, H, W) in the type of `expanded`.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; choose from {', '.join(BACKENDS)}")
    if backend == "triton" or (backend == "auto" and can_run(expanded, weight)):
        from enlcn.ops.gate.operators import gate_operator

        learns = any(tensor.requires_grad for tensor in (expanded, weight, bias))
        out: Tensor = gate_operator(expanded, weight, bias, learns and torch.is_grad_enabled())[0]
        return out
    return naive(expanded, weight, bias)


def naive(expanded: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As `gate`, by PyTorch's convolution."""
    said, heard = expanded.chunk(2, dim=1)
    return said * conv2d(heard, weight, bias, padding=weight.shape[-1] // 2, groups=heard.shape[1])


def can_run(expanded: Tensor, weight: Tensor) -> bool:
    """Whether the kernels take this input: on a CUDA device, or in Triton's interpreter."""
    if expanded.dtype not in _DTYPES or expanded.numel() == 0 or weight.shape[-1] > MAX_SIDE:
        return False
    return kernels_run_on(expanded.device)


__all__ = ["BACKENDS", "MAX_SIDE", "can_run", "gate", "naive"]
