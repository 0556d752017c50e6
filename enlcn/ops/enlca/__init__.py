"""The ENLCA module as one operator, and the one place where kernels or plain PyTorch is chosen.

`enlca` has two implementations with one signature: `naive` (the equations) and `triton` (kernels that read x twice
and write once). `can_run` says whether the kernels take an input; models ask it and have their own, chunked way
for all else.

Axes: B batch, C channels, N = H W positions, D query/key width, M random features.
"""

import torch
from torch import Tensor

from enlcn.ops.enlca import naive
from enlcn.ops.kernel_support import kernels_run_on

BACKENDS = ("auto", "naive", "triton")
MAX_CHANNELS, MAX_WIDTH, MAX_FEATURES = 256, 64, 256
# theta's weight and bias, delta's, psi's, and F.
Weights = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def enlca(
    x: Tensor,
    query_weight: Tensor,
    query_bias: Tensor,
    key_weight: Tensor,
    key_bias: Tensor,
    value_weight: Tensor,
    value_bias: Tensor,
    proj: Tensor,
    *,
    amplification: float,
    feature_eps: float = 0.0,
    res_scale: float = 0.1,
    backend: str = "auto",
) -> Tensor:
    """x + res_scale * Y, Y the random-feature estimate of non-local attention within x.

    >>> import torch
    >>> w, b = torch.randn(3, 8, 32), torch.randn(3, 8)
    >>> x, psi = torch.randn(1, 32, 5, 7), (torch.eye(32), torch.zeros(32))
    >>> enlca(x, w[0], b[0], w[1], b[1], *psi, torch.randn(16, 8), amplification=6.0).shape
    torch.Size([1, 32, 5, 7])

    Args:
        x: (B, C, H, W), any strides; channels_last is fastest.
        query_weight, query_bias: theta, (D, C) and (D,).
        key_weight, key_bias: delta, (D, C) and (D,).
        value_weight, value_bias: psi, (C, C) and (C,).
        proj: the random matrix F, (M, D).
        amplification: k = |q|^2 = |k|^2; no larger than `needs_rescaling` allows.
        feature_eps: added to exp(...) in phi.
        res_scale: the factor of Y.
        backend: "auto", "naive" or "triton".

    Returns:
        (B, C, H, W) in x's type.
    """
    weights = (query_weight, query_bias, key_weight, key_bias, value_weight, value_bias, proj)
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; choose from {', '.join(BACKENDS)}")
    if backend == "triton" and not kernels_run_on(x.device):
        device = x.device.type
        raise ValueError(f"the kernels run on NVIDIA GPUs since Ampere, not on this {device}; take backend='auto'")
    if backend == "triton" or (backend == "auto" and can_run(x, proj)):
        return _by_kernels(x, weights, amplification, feature_eps, res_scale)
    return naive.enlca(x, *weights, amplification=amplification, feature_eps=feature_eps, res_scale=res_scale)


def can_run(x: Tensor, proj: Tensor) -> bool:
    """Whether the kernels take this input: on a CUDA device (or in Triton's interpreter), of a size they hold.

    Where float32 products must not be rounded to tf32 (torch.backends.cudnn.allow_tf32 is False) they do not.
    """
    # The device first: elsewhere nothing is asked of sizes, to which an exported program would then be bound.
    if not kernels_run_on(x.device) or x.dtype not in _DTYPES or x.numel() == 0:
        return False
    if x.is_cuda and x.dtype == torch.float32 and not torch.backends.cudnn.allow_tf32:
        return False
    return x.shape[1] <= MAX_CHANNELS and proj.shape[1] <= MAX_WIDTH and proj.shape[0] <= MAX_FEATURES


def _by_kernels(x: Tensor, weights: Weights, amplification: float, feature_eps: float, res_scale: float) -> Tensor:
    from enlcn.ops.enlca.operators import enlca_operator, forward

    numbers = (amplification, feature_eps, res_scale)
    needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (x, *weights))
    if needs_gradient or torch.compiler.is_compiling():
        out: Tensor = enlca_operator(x, *weights, *numbers)[0]
        return out
    with torch.cuda.device_of(x):
        return forward(x, *weights, *numbers)[0]  # the same kernels, without the dispatcher on the way


__all__ = ["BACKENDS", "can_run", "enlca"]
