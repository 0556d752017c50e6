"""A row's term of L_cl and its gradient from its highest scores, by top-k: the plain way, on any device.

Axes: B batch, R rows, N positions.
"""

import math

import torch
from torch import Tensor


def ranked_terms(
    t: Tensor,
    count: int,
    start: int,
    *,
    margin: float,
    hinge: bool,
    floor: float,
    slope: float,
    gradient: Tensor | None,
) -> Tensor:
    """Each row's term (B, R), and the gradient of their sum with respect to T.

    Args:
        t: T, the scores, (B, R, N).
        count, start: ranks 0..count-1 are relevant, start..start+count-1 irrelevant.
        margin, hinge: as in `Contrast`.
        floor: added to the sum of the irrelevant exponentials.
        slope: factor of the gradient.
        gradient: where that goes, (B, R, N), of any type; T itself for one, None for no gradient.
    """
    top = t.topk(start + count, dim=-1, sorted=True)
    relevant = top.values[..., :count].logsumexp(-1, keepdim=True)
    irrelevant = top.values[..., start:].logsumexp(-1, keepdim=True)
    if floor > 0:
        irrelevant = torch.logaddexp(irrelevant, torch.full((), math.log(floor), dtype=t.dtype, device=t.device))
    terms = irrelevant - relevant + margin  # (B, R, 1)
    active = terms > 0 if hinge else torch.ones_like(terms, dtype=torch.bool)
    terms = torch.where(active, terms, 0.0)
    if gradient is not None:
        slopes = torch.zeros_like(top.values)
        slopes[..., :count] -= (top.values[..., :count] - relevant).exp()
        slopes[..., start:] += (top.values[..., start:] - irrelevant).exp()
        gradient.zero_().scatter_(-1, top.indices, (slopes * active * slope).to(gradient.dtype))
    return terms.squeeze(-1)
