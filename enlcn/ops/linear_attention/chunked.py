"""Linear attention in chunks of positions: the naive equation, with only one chunk's features alive at a time.

Memory beyond input and output does not grow with N. In training, each chunk's features are recomputed in the
backward pass instead of being kept.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from enlcn.ops.linear_attention import naive

# At M = 128 a chunk's features take 4 MiB: they stay in a CPU's cache and still fill its matrix units.
CHUNK_SIZE = 8192


def feature_maximum(k: Tensor, proj: Tensor, eps: float = 0.0, *, chunk_size: int = CHUNK_SIZE) -> Tensor:
    """As `naive.feature_maximum`, chunk by chunk. (B, N, D) -> (B, M)."""
    maxima = [naive.feature_maximum(part, proj, eps) for part in k.split(chunk_size, dim=1)]
    return torch.stack(maxima).amax(0)


def summarise(
    k: Tensor,
    v: Tensor,
    proj: Tensor,
    eps: float = 0.0,
    shift: Tensor | None = None,
    *,
    chunk_size: int = CHUNK_SIZE,
) -> tuple[Tensor, Tensor]:
    """As `naive.summarise`, the sum over chunks. (B, N, D), (B, N, C) -> kv (B, M, C), z (B, M)."""
    kv, z = None, None
    # split, not slices: its backward joins the parts' gradients once instead of padding each to full size.
    for k_part, v_part in zip(k.split(chunk_size, dim=1), v.split(chunk_size, dim=1), strict=True):
        kv_part, z_part = _recomputed(naive.summarise, k_part, v_part, proj, eps, shift)
        kv = kv_part if kv is None else kv + kv_part
        z = z_part if z is None else z + z_part
    assert kv is not None
    assert z is not None
    return kv, z


def apply(
    q: Tensor,
    kv: Tensor,
    z: Tensor,
    proj: Tensor,
    eps: float = 0.0,
    shift: Tensor | None = None,
    *,
    chunk_size: int = CHUNK_SIZE,
) -> Tensor:
    """As `naive.apply`, chunk by chunk. (B, N, D) -> (B, N, C)."""
    if torch.is_grad_enabled() and (q.requires_grad or kv.requires_grad):
        parts = [_recomputed(naive.apply, part, kv, z, proj, eps, shift) for part in q.split(chunk_size, dim=1)]
        return torch.cat(parts, dim=1)
    # Channels before positions in memory: the caller's (B, C, H, W) view of it is then contiguous.
    out = q.new_empty(q.shape[0], kv.shape[-1], q.shape[1]).mT
    for q_part, out_part in zip(q.split(chunk_size, dim=1), out.split(chunk_size, dim=1), strict=True):
        out_part.copy_(naive.apply(q_part, kv, z, proj, eps, shift))
    return out


def _recomputed(function: Callable[..., Any], *args: Any) -> Any:
    if torch.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
        return checkpoint(function, *args, use_reentrant=False)
    return function(*args)
