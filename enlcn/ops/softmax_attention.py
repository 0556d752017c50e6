"""Exact non-local attention (Eq. 1): Y_i = sum_j softmax_j(q_i . k_j) v_j. Quadratic in N; the oracle.

Axes: B batch, N positions, D query/key width, C value channels.
"""

import torch
from torch import Tensor

from enlcn.ops.precision import at_least_float32, no_autocast


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, *, chunk_size: int | None = None) -> Tensor:
    """Exact attention, optionally over chunks of queries so that only chunk_size x N scores live at a time.

    Args:
        q, k: (B, N, D).
        v: (B, N, C).
        chunk_size: queries at a time; None for all at once.

    Returns:
        (B, N, C) in q's type.
    """
    with no_autocast(q.device):
        parts = [_weights(part, k) @ at_least_float32(v) for part in q.split(chunk_size or q.shape[1], dim=1)]
    return torch.cat(parts, dim=1).to(q.dtype)


def _weights(q: Tensor, k: Tensor) -> Tensor:
    with no_autocast(q.device):
        return torch.softmax(at_least_float32(q) @ at_least_float32(k).mT, dim=-1)  # (B, n, N)
