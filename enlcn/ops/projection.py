"""The Gaussian random matrix F (m x c) behind the random features, with orthogonal or independent rows.

Axes: M random features, D query/key width.
"""

import torch
from torch import Tensor


def draw_projection(
    num_features: int,
    dim: int,
    *,
    kind: str = "orthogonal",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw F. Every row is N(0, I_D) whatever the kind; the kinds differ in how rows depend on each other.

    Drawn in float32 on the generator's device (the CPU without one), so that the same generator state gives
    the same F wherever it is used afterwards.

    Args:
        num_features: M, the number of rows.
        dim: D, the length of a row.
        kind: "orthogonal" (rows orthogonal within each block of D) or "iid".
        generator: source of randomness; torch's global one if None.

    Returns:
        F of shape (M, D).
    """
    if num_features < 1 or dim < 1:
        raise ValueError(f"F needs at least one row and one column, got {num_features} x {dim}")
    if kind not in PROJECTIONS:
        raise ValueError(f"unknown projection {kind!r}; choose from {', '.join(PROJECTIONS)}")
    return PROJECTIONS[kind](num_features, dim, generator)


def _iid(num_features: int, dim: int, generator: torch.Generator | None) -> Tensor:
    device = generator.device if generator is not None else None
    return torch.randn(num_features, dim, generator=generator, device=device)


def _orthogonal(num_features: int, dim: int, generator: torch.Generator | None) -> Tensor:
    num_blocks = -(-num_features // dim)
    directions = _haar_rotations(num_blocks, dim, generator).flatten(0, 1)[:num_features]  # (M, D), unit rows
    # Lengths of independent Gaussian vectors (chi with D degrees of freedom) make each row Gaussian again.
    lengths = _iid(num_features, dim, generator).norm(dim=1, keepdim=True)
    return directions * lengths


def _haar_rotations(count: int, dim: int, generator: torch.Generator | None) -> Tensor:
    q, r = torch.linalg.qr(_iid(count * dim, dim, generator).view(count, dim, dim))
    # QR alone prefers some rotations to others; fixing the signs of R's diagonal makes all equally likely.
    signs = r.diagonal(dim1=-2, dim2=-1).sign()
    return (q * signs.unsqueeze(-2)).mT


PROJECTIONS = {"orthogonal": _orthogonal, "iid": _iid}
