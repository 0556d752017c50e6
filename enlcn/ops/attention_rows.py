"""One query's weights under every attention, computed for that query alone: fast enough to click around with.

Each equals a row of the whole attention: what its output takes of every value.

Axes: N = H W positions, D query/key width, M features, R rounds, S positions per bucket.
"""

import torch
from torch import Tensor

from enlcn.ops.features import log_features
from enlcn.ops.hashed_attention import MAX_HASHES, draw_rotations, hash_directions, num_hashes

_CHUNK_FEATURES = 1 << 22  # of keys, in memory at a time


def exact_row(q: Tensor, k: Tensor, index: int) -> Tensor:
    """softmax_j(q_i . k_j). q, k: (N, D) -> (N,)."""
    return torch.softmax(k @ q[index], dim=0)


def features_row(q: Tensor, k: Tensor, index: int, proj: Tensor, eps: float = 0.0) -> Tensor:
    """phi(q_i) . phi(k_j), normalised: what ENLCA computes. q, k: (N, D), proj: (M, D) -> (N,)."""
    log_q = log_features(q[index : index + 1], proj, eps)  # (1, M)
    chunk = max(1, _CHUNK_FEATURES // proj.shape[0])
    logs = [torch.logsumexp(log_q + log_features(part, proj, eps), dim=-1) for part in k.split(chunk)]
    return torch.softmax(torch.cat(logs), dim=0)


def hashed_order(k: Tensor, rotations: Tensor, bucket_size: int) -> Tensor:
    """Positions sorted by hash, the same for every query and every length of k. (N, D), (R, D, H / 2) -> (R, N)."""
    count = num_hashes(k.shape[0], bucket_size, 2 * rotations.shape[-1])
    return hash_directions(k[None], rotations, count)[0].sort(dim=-1, stable=True).indices


def hashed_row(q: Tensor, k: Tensor, index: int, order: Tensor, bucket_size: int) -> Tensor:
    """Attention to the query's bucket and the two beside it, rounds weighted by what each found.

    Args:
        q, k: (N, D).
        index: the query's position.
        order: (R, N), see `hashed_order`.
        bucket_size: S.

    Returns:
        (N,), zero where no round looks.
    """
    count = k.shape[0]
    num_buckets = -(-count // bucket_size)
    rows, found = [], []
    for ranked in order:
        own = int((ranked == index).nonzero()) // bucket_size
        near = sorted({(own + step) % num_buckets for step in (-1, 0, 1)})
        seen = torch.cat([ranked[b * bucket_size : (b + 1) * bucket_size] for b in near])
        scores = k[seen] @ q[index]
        found.append(scores.logsumexp(0))
        rows.append(torch.zeros(count, device=k.device).index_copy(0, seen, torch.softmax(scores, dim=0)))
    share = torch.softmax(torch.stack(found), dim=0)
    return (torch.stack(rows) * share[:, None]).sum(0)


def criss_cross_row(q: Tensor, k: Tensor, index: int, size: tuple[int, int]) -> Tensor:
    """softmax over the pixel's row and column. q, k: (N, D) -> (N,)."""
    height, width = size
    y, x = divmod(index, width)
    seen = torch.cat([torch.arange(y * width, (y + 1) * width), torch.arange(x, height * width, width)])
    seen = seen.unique().to(k.device)
    return torch.zeros(k.shape[0], device=k.device).index_copy(0, seen, torch.softmax(k[seen] @ q[index], dim=0))


def fixed_rotations(dim: int) -> Tensor:
    """The hashing directions by which maps of networks without any are drawn, (4, D, MAX_HASHES / 2)."""
    return draw_rotations(dim, 4, max_hashes=MAX_HASHES, generator=torch.Generator().manual_seed(0))
