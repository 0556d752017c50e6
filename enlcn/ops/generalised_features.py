"""Generalised exponential features: unbiased and positive as phi is, with one free number A that lowers their variance.

    phi_A(u) = D exp(A |f|^2 + B f.u - |u|^2 / 2) / sqrt(m),   B = sqrt(1 - 4 A),   D = (1 - 4 A)^(d / 4)

for f ~ N(0, I_d) and A < 1/8 (V. Likhosherstov et al., Chefs' Random Tables, NeurIPS 2022). A = 0 is the paper's phi.
For z = q + k the Gaussian integral E exp(a |f|^2 + b f.z) = (1 - 2 a)^(-d/2) exp(b^2 |z|^2 / (2 (1 - 2 a))) gives

    E[phi_A(q).phi_A(k)]              = exp(q.k)                     (a = 2 A, b = B: the same for every A)
    m Var / exp(q.k)^2                = (1 - 4 A)^d (1 - 8 A)^(-d/2) exp(|z|^2 / (1 - 8 A)) - 1

With A < 0 a feature is bounded: long rows of F, which make phi heavy-tailed, are damped.

Axes: N positions, D query/key width (d above), M random features; leading axes are free.
"""

import math

import torch
from torch import Tensor

from enlcn.ops.precision import at_least_float32, no_autocast

_LIMIT = 1 / 8  # at and beyond it the variance is infinite
_LOWEST = -64.0
_GOLDEN = (math.sqrt(5) - 1) / 2


def generalised_log_features(u: Tensor, proj: Tensor, a: float = 0.0) -> Tensor:
    """log(sqrt(m) phi_A(u)).

    Args:
        u: queries or keys, (..., N, D).
        proj: the random matrix F, (M, D).
        a: A, below 1/8.

    Returns:
        (..., N, M), float32 (float64 for float64 input).
    """
    if a >= _LIMIT:
        raise ValueError(f"A is {a}; its variance is finite only below 1/8")
    u = at_least_float32(u)
    rows = proj.to(u.dtype)
    dim = rows.shape[-1]
    with no_autocast(u.device):
        exponent = math.sqrt(1 - 4 * a) * (u @ rows.mT) - u.square().sum(-1, keepdim=True) / 2
    return exponent + a * rows.square().sum(-1) + dim / 4 * math.log1p(-4 * a)


def generalised_features(u: Tensor, proj: Tensor, a: float = 0.0) -> Tensor:
    """phi_A(u): see above. (..., N, D), (M, D) -> (..., N, M), all positive.

    >>> import torch
    >>> u, proj = torch.randn(5, 4), torch.randn(16, 4)
    >>> from enlcn.ops.features import positive_features
    >>> torch.allclose(generalised_features(u, proj), positive_features(u, proj))
    True
    """
    return generalised_log_features(u, proj, a).exp() * proj.shape[0] ** -0.5


def log_relative_second_moment(squared_norm: Tensor | float, dim: int, a: float) -> Tensor:
    """log(1 + m Var / K^2) for iid rows of F: linear in |q + k|^2, hence its mean needs only the mean of that.

    Args:
        squared_norm: |q + k|^2, any shape.
        dim: D.
        a: A.
    """
    squared_norm = torch.as_tensor(squared_norm, dtype=torch.float64)
    return dim * math.log1p(-4 * a) - dim / 2 * math.log1p(-8 * a) + squared_norm / (1 - 8 * a)


def best_parameter(mean_squared_norm: float, dim: int) -> float:
    """The A of least mean log variance for pairs whose |q + k|^2 has this mean: golden-section search.

    Queries and keys of length sqrt(k) have |q + k|^2 = 2 k (1 + cos), between 0 and 4 k.

    >>> round(best_parameter(0.0, 16), 6)  # nothing to damp
    0.0

    Args:
        mean_squared_norm: mean of |q + k|^2 over pairs.
        dim: D.
    """

    def cost(a: float) -> float:
        return log_relative_second_moment(mean_squared_norm, dim, a).item()

    # In s = -log(1 - 8 A) the cost has one minimum; A <= 0 there, since every |z| > 0 wants damping.
    low, high = -math.log(1 - 8 * _LOWEST), 0.0

    def at(s: float) -> float:
        return (1 - math.exp(-s)) / 8

    for _ in range(100):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if cost(at(left)) < cost(at(right)):
            high = right
        else:
            low = left
    return at((low + high) / 2)
