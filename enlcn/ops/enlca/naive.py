"""The ENLCA module as one function of x, written by the equations. The truth the kernels are held to.

Axes: B batch, C channels, N = H W positions, D query/key width, M random features.
"""

import math

from torch import Tensor
from torch.nn.functional import linear, normalize

from enlcn.ops.linear_attention import naive as linear_attention
from enlcn.ops.precision import at_least_float32, no_autocast

# The authors' floor under the norms of q and k.
NORM_EPS = 5e-5


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
) -> Tensor:
    """x + res_scale * Y with Y = D^-1 phi(Q)^T (phi(K) psi(X)^T), in float32 (float64 for float64 input).

    Args:
        x: (B, C, H, W).
        query_weight, query_bias: theta, (D, C) and (D,).
        key_weight, key_bias: delta, (D, C) and (D,).
        value_weight, value_bias: psi, (C, C) and (C,).
        proj: the random matrix F, (M, D).
        amplification: k = |q|^2 = |k|^2.
        feature_eps: added to exp(...) in phi.
        res_scale: the factor of Y.

    Returns:
        (B, C, H, W) in x's type.
    """
    tokens = at_least_float32(x).flatten(2).mT  # (B, N, C)
    with no_autocast(x.device):
        q = unit_length(tokens, query_weight, query_bias) * math.sqrt(amplification)
        k = unit_length(tokens, key_weight, key_bias) * math.sqrt(amplification)
        # psi is linear, so it may act on the summary: phi(K) V^T = (phi(K) X^T) W^T + (phi(K) 1) b^T.
        kx, z = linear_attention.summarise(k, tokens, proj, feature_eps)
        kv = kx @ value_weight.to(kx.dtype).mT + z.unsqueeze(-1) * value_bias.to(kx.dtype)
        y = linear_attention.apply(q, kv, z, proj, feature_eps)
        return (tokens + res_scale * y).mT.reshape(x.shape).to(x.dtype)


def unit_length(tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A 1x1 projection, each position scaled to length 1 (Eq. 3). (B, N, C) -> (B, N, D)."""
    projected = linear(tokens, weight.to(tokens.dtype), bias.to(tokens.dtype))
    return normalize(projected, dim=-1, eps=NORM_EPS)
