"""Positive random features: phi(u) = exp(F u - |u|^2 / 2) / sqrt(m), so that E[phi(q).phi(k)] = exp(q.k).

Axes: N positions, D query/key width, M random features; leading axes are free.

Range. |u|^2 = k (the amplification) bounds every exponent: F u - |u|^2/2 <= |F_r| sqrt(k) - k/2. Rows of F are
chi distributed; at D = 64 one longer than 12 has probability 4e-8, so log phi <= 12 * 8 - 32 = 64 at k = 64,
under float32's 88. In float16, whose largest number is 65504 = exp(11.09), phi itself overflows from about
k = 4 on (12 * 2 - 2 = 22) and the sum over positions earlier still: hence float32 whatever the input.
"""

import math

import torch
from torch import Tensor

from enlcn.ops.precision import at_least_float32, no_autocast


def log_features(u: Tensor, proj: Tensor, eps: float = 0.0) -> Tensor:
    """log(sqrt(m) phi(u)): the exponent of the features.

    Args:
        u: queries or keys, (..., N, D).
        proj: the random matrix F, (M, D).
        eps: added to exp(...) as the authors' code does (1e-4 there); 0 is the paper's phi.

    Returns:
        (..., N, M), float32 (float64 for float64 input).
    """
    u = at_least_float32(u)
    with no_autocast(u.device):
        exponent = u @ proj.to(u.dtype).mT - u.square().sum(-1, keepdim=True) / 2
    if eps:
        # full, not tensor: no copy from the host, which a CUDA graph could not hold.
        floor = torch.full((), math.log(eps), dtype=exponent.dtype, device=exponent.device)
        exponent = torch.logaddexp(exponent, floor)
    return exponent


def positive_features(u: Tensor, proj: Tensor, eps: float = 0.0) -> Tensor:
    """phi(u), the positive random features of the exponential kernel.

    >>> import torch
    >>> positive_features(torch.zeros(5, 4), torch.randn(16, 4)).sum().item()  # phi(0) = 1/sqrt(m) each
    20.0

    Args:
        u: queries or keys, (..., N, D).
        proj: the random matrix F, (M, D).
        eps: as in `log_features`.

    Returns:
        (..., N, M), float32 (float64 for float64 input), all positive.
    """
    phi = log_features(u, proj).exp()
    return (phi + eps if eps else phi) * proj.shape[0] ** -0.5


def kernel_variance(q: Tensor, k: Tensor, num_features: int) -> Tensor:
    """Variance of phi(q).phi(k) over iid draws of F (Proof 2): K(q,k)^2 (exp(|q + k|^2) - 1) / m.

    Args:
        q, k: (..., D).
        num_features: M.

    Returns:
        (...), the variance of the estimate of exp(q.k).
    """
    kernel = (q * k).sum(-1).exp()
    return kernel.square() * torch.expm1((q + k).square().sum(-1)) / num_features
