"""Non-local sparse attention (NLSA, Mei et al. 2021): attention within buckets of locality-sensitive hashing.

In each of R rounds, positions are hashed by direction, sorted by hash, and cut into buckets of equal size; a query
attends to its bucket and the two beside it. Rounds are then averaged, weighted by how much each one found.

Axes: B batch, R rounds, N positions, D query/key width, C value channels, G buckets of S sorted positions.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

MAX_HASHES = 128


def draw_rotations(
    dim: int, num_rounds: int, *, max_hashes: int = MAX_HASHES, generator: torch.Generator | None = None
) -> Tensor:
    """Random directions for hashing. Returns (R, D, max_hashes / 2)."""
    device = generator.device if generator is not None else None
    return torch.randn(num_rounds, dim, max_hashes // 2, generator=generator, device=device)


def hash_directions(k: Tensor, rotations: Tensor, num_hashes: int) -> Tensor:
    """Cross-polytope hash: which of the directions +-rotation is nearest.

    Args:
        k: (B, N, D).
        rotations: (R, D, at least num_hashes / 2).
        num_hashes: even.

    Returns:
        (B, R, N) integers in [0, num_hashes).
    """
    rotated = torch.einsum("bnd,rdh->brnh", k, rotations[..., : num_hashes // 2].to(k.dtype))
    return torch.cat([rotated, -rotated], dim=-1).argmax(-1)


def hashed_attention(q: Tensor, k: Tensor, v: Tensor, rotations: Tensor, *, bucket_size: int = 144) -> Tensor:
    """Attention among positions whose keys hash alike.

    Args:
        q, k: (B, N, D). Position i of q and of k are sorted together, by the hash of k.
        v: (B, N, C).
        rotations: (R, D, H / 2), see `draw_rotations`.
        bucket_size: S, positions per bucket.

    Returns:
        (B, N, C) in q's type.
    """
    num_positions = k.shape[1]
    hashes = hash_directions(k, rotations, num_hashes(num_positions, bucket_size, 2 * rotations.shape[-1]))
    order = hashes.sort(dim=-1, stable=True).indices  # (B, R, N): sorted place -> position
    q_bucket, k_bucket, v_bucket = (_cut(_take(x, order), bucket_size) for x in (q, k, v))  # (B, R, G, S, .)
    is_real = _cut(torch.ones_like(order, dtype=torch.bool).unsqueeze(-1), bucket_size).squeeze(-1)

    scores = (q_bucket @ _with_neighbours(k_bucket).mT).float()  # (B, R, G, S, 3S)
    scores = scores.masked_fill(~_with_neighbours(is_real).unsqueeze(-2), -torch.inf)
    found = scores.logsumexp(-1)  # (B, R, G, S)
    mixed = torch.softmax(scores, dim=-1) @ _with_neighbours(v_bucket).float()  # (B, R, G, S, C)

    place = order.argsort(dim=-1)  # position -> sorted place
    mixed = _gather(mixed.flatten(2, 3), place)  # (B, R, N, C); padding is never gathered
    found = found.flatten(2, 3).gather(2, place)  # (B, R, N)
    return (mixed * torch.softmax(found, dim=1).unsqueeze(-1)).sum(1).to(q.dtype)


def num_hashes(num_positions: int, bucket_size: int, limit: int) -> int:
    """How many values the hash takes: about one a bucket, an even number, at most `limit`."""
    buckets = num_positions // bucket_size
    return max(2, min(buckets + buckets % 2, limit))


def _take(x: Tensor, order: Tensor) -> Tensor:
    return _gather(x.unsqueeze(1).expand(-1, order.shape[1], -1, -1), order)


def _gather(x: Tensor, index: Tensor) -> Tensor:
    return x.gather(2, index.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1]))


def _cut(x: Tensor, bucket_size: int) -> Tensor:
    """(B, R, N, E) -> (B, R, G, S, E), the last bucket filled up with zeros."""
    missing = -x.shape[2] % bucket_size
    return pad(x, (0, 0, 0, missing)).unflatten(2, (-1, bucket_size))


def _with_neighbours(x: Tensor) -> Tensor:
    """(B, R, G, S, ...) -> (B, R, G, 3S, ...): each bucket, the one before and the one after, each once."""
    num_buckets = x.shape[2]
    shifts = {0: [0], 1: [0], 2: [0, 1]}.get(num_buckets, [0, 1, -1])
    return torch.cat([x.roll(shift, dims=2) for shift in shifts], dim=3)
