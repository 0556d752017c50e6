"""Linear attention as the paper writes it: Y = D^-1 phi(Q)^T (phi(K) V^T). The truth the others are held to.

Axes: B batch, N positions, D query/key width, M random features, C value channels.

`shift` (B, M) rescales feature r by exp(-shift_r) on the key side and back on the query side; it cancels in the
ratio and only moves the numbers into range. None means no shift.
"""

from torch import Tensor

from enlcn.ops.features import log_features, positive_features
from enlcn.ops.precision import no_autocast


def feature_maximum(k: Tensor, proj: Tensor, eps: float = 0.0) -> Tensor:
    """The largest log feature over positions, per feature: the shift that keeps any amplification in range.

    Args:
        k: keys (B, N, D).
        proj: F (M, D).
        eps: see `log_features`.

    Returns:
        (B, M). The maximum over chunks is the maximum of their maxima.
    """
    return log_features(k, proj, eps).detach().amax(dim=1)


def summarise(
    k: Tensor, v: Tensor, proj: Tensor, eps: float = 0.0, shift: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """All that queries need to know of keys and values. Additive: summaries of chunks add up to the whole's.

    Args:
        k: keys (B, N, D).
        v: values (B, N, C).
        proj: F (M, D).
        eps: see `log_features`.
        shift: (B, M) or None.

    Returns:
        kv = phi(K) V^T (B, M, C) and z = phi(K) 1 (B, M), float32.
    """
    phi_k = _key_features(k, proj, eps, shift)  # (B, N, M)
    with no_autocast(k.device):
        return phi_k.mT @ v.to(phi_k.dtype), phi_k.sum(1)


def apply(q: Tensor, kv: Tensor, z: Tensor, proj: Tensor, eps: float = 0.0, shift: Tensor | None = None) -> Tensor:
    """Answer queries from a summary: phi(q).kv / phi(q).z.

    Args:
        q: queries (B, N, D).
        kv: (B, M, C).
        z: (B, M).
        proj: F (M, D).
        eps: see `log_features`.
        shift: what `summarise` was given.

    Returns:
        (B, N, C) in q's type.
    """
    phi_q = _query_features(q, proj, eps, shift)  # (B, N, M)
    with no_autocast(q.device):
        return ((phi_q @ kv) / (phi_q @ z.unsqueeze(-1))).to(q.dtype)


def _key_features(k: Tensor, proj: Tensor, eps: float, shift: Tensor | None) -> Tensor:
    if shift is None:
        return positive_features(k, proj, eps)
    return (log_features(k, proj, eps) - shift.unsqueeze(1)).exp()


def _query_features(q: Tensor, proj: Tensor, eps: float, shift: Tensor | None) -> Tensor:
    if shift is None:
        return positive_features(q, proj, eps)
    exponent = log_features(q, proj, eps) + shift.unsqueeze(1)
    # Each query's own maximum cancels in the ratio too.
    return (exponent - exponent.detach().amax(-1, keepdim=True)).exp()
