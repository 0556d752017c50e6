"""The contrastive loss L_cl: rank q.k per query, pull the top n1 away from the n1 that start at n2.

T_ij = q_i.k_j (queries and keys of length sqrt(k) make it the paper's k cos), T' its rows sorted descending,

    L_cl = mean_i [ -log( mean exp T'_i[relevant] / mean exp T'_i[irrelevant] ) + b ].

`contrastive_loss_naive` transcribes that with a full sort. `contrastive_loss` gives the same value and gradient
from the ranks it needs, in bounded memory.

Axes: B batch, N positions, R rows (queries looked at), D query/key width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from enlcn.ops.contrastive import by_top_k
from enlcn.ops.kernel_support import kernels_run_on
from enlcn.ops.precision import at_least_float32, no_autocast
from enlcn.ops.second_derivatives import differentiable_gradients

_RELEASED_COUNT, _RELEASED_START = 15, 50
_RELEASED_EPS = 1e-6
# T of one chunk: 64 MiB in float32. Top-k needs about four times that on the way.
_CHUNK_SCORES = 1 << 24


@dataclass(frozen=True)
class Contrast:
    """What is compared with what.

    Attributes:
        relevant_fraction: n1, the share of positions taken as relevant, and as irrelevant.
        irrelevant_start: n2, the rank, as a share, at which the irrelevant ones start.
        margin: b.
        hinge: clip each query's term at 0, as the authors' code does; the paper writes none.
        released_ranks: fixed ranks 0..14 against 50..64, as the authors' code, instead of shares of N.
    """

    relevant_fraction: float = 0.02
    irrelevant_start: float = 0.08
    margin: float = 1.0
    hinge: bool = True
    released_ranks: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.relevant_fraction <= 1 or not 0 <= self.irrelevant_start <= 1:
            raise ValueError(f"relevant_fraction and irrelevant_start are shares of 1, got {self}")

    def ranks(self, num_positions: int) -> tuple[int, int]:
        """(how many, where the irrelevant ones start) among `num_positions` ranks; the window stays inside."""
        if self.released_ranks:
            if num_positions < _RELEASED_START + _RELEASED_COUNT:
                needed = _RELEASED_START + _RELEASED_COUNT
                raise ValueError(f"the released ranks need at least {needed} positions, got {num_positions}")
            return _RELEASED_COUNT, _RELEASED_START
        count = max(1, round(self.relevant_fraction * num_positions))
        start = max(1, round(self.irrelevant_start * num_positions))
        return count, max(0, min(start, num_positions - count))


PAPER = Contrast(hinge=False)
RELEASED = Contrast(released_ranks=True)


def contrastive_loss_naive(q: Tensor, k: Tensor, contrast: Contrast = Contrast()) -> Tensor:  # noqa: B008
    """L_cl by the equation: the whole T, sorted.

    Args:
        q, k: queries and keys of length sqrt(k), (B, N, D).
        contrast: ranks, margin and hinge.

    Returns:
        A scalar, float32.
    """
    _require_pair(q, k)
    num_positions = k.shape[1]
    if num_positions < 2 or q.numel() == 0:
        return _zero(q, k)
    count, start = contrast.ranks(num_positions)
    with no_autocast(q.device):
        t = at_least_float32(q) @ at_least_float32(k).mT  # (B, N, N)
    ranked = t.sort(dim=-1, descending=True).values  # T'
    relevant = ranked[..., :count].exp().mean(-1)
    irrelevant = ranked[..., start : start + count].exp().mean(-1)
    eps = _RELEASED_EPS if contrast.released_ranks else 0.0
    terms = -torch.log(relevant / (irrelevant + eps)) + contrast.margin
    return (terms.relu() if contrast.hinge else terms).mean()


def contrastive_loss(
    q: Tensor,
    k: Tensor,
    contrast: Contrast = Contrast(),  # noqa: B008
    *,
    num_rows: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """L_cl from the highest ranks alone, in chunks of queries whose gradient is taken on the way.

    Second derivatives are those of `contrastive_loss_naive`, in its memory. `torch.func` takes that one alone.

    Args:
        q, k: queries and keys of length sqrt(k), (B, N, D).
        contrast: ranks, margin and hinge.
        num_rows: look at this many queries, drawn uniformly without replacement: an unbiased estimate.
        generator: source of that draw.

    Returns:
        A scalar, float32.
    """
    _require_pair(q, k)
    if k.shape[1] < 2 or q.numel() == 0:
        return _zero(q, k)
    if num_rows is not None and num_rows < q.shape[1]:
        if num_rows < 1:
            raise ValueError(f"num_rows must be at least 1, got {num_rows}")
        device = generator.device if generator is not None else q.device
        rows = torch.randperm(q.shape[1], generator=generator, device=device)[:num_rows]
        q = q[:, rows.to(q.device)]
    loss: Tensor = _RankedLoss.apply(q, k, contrast)
    return loss


class _RankedLoss(torch.autograd.Function):
    """The gradient is computed with the value, chunk by chunk, so that T is formed once and never kept."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, contrast: Contrast) -> Tensor:
        count, start = contrast.ranks(k.shape[1])
        needs_gradient = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        kind = _gradient_dtype(q)
        with no_autocast(q.device):
            wide_q, wide_k = at_least_float32(q), at_least_float32(k)
            narrow_q, narrow_k = wide_q.to(kind), wide_k.to(kind)
            num_terms = q.shape[0] * q.shape[1]
            chunk = max(1, _CHUNK_SCORES // (k.shape[0] * k.shape[1]))
            loss = wide_q.new_zeros(())
            gradient_q, gradient_k = torch.empty_like(wide_q), torch.zeros_like(wide_k)
            for first in range(0, q.shape[1], chunk):
                rows = slice(first, first + chunk)
                t = wide_q[:, rows] @ wide_k.mT  # (B, R, N)
                gradient_t = t if kind == t.dtype else torch.empty_like(t, dtype=kind)
                terms = ranked_terms(t)(
                    t,
                    count,
                    start,
                    margin=contrast.margin,
                    hinge=contrast.hinge,
                    floor=_RELEASED_EPS * count if contrast.released_ranks else 0.0,
                    slope=1 / num_terms,
                    gradient=gradient_t if needs_gradient else None,
                )
                loss += terms.sum() / num_terms
                if needs_gradient:
                    gradient_q[:, rows] = gradient_t @ narrow_k
                    gradient_k += gradient_t.mT @ narrow_q[:, rows]
        if needs_gradient:
            ctx.contrast = contrast
            ctx.save_for_backward(gradient_q.to(q.dtype), gradient_k.to(k.dtype), q, k)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        gradient_q, gradient_k, q, k = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            # Whoever differentiates the gradient itself needs its dependence on q and k, which was not kept.
            by_naive = partial(contrastive_loss_naive, q, k, ctx.contrast)
            by_q, by_k = differentiable_gradients(by_naive, (q, k), ctx.needs_input_grad, gradient)
            return by_q, by_k, None
        return gradient_q * gradient.to(gradient_q.dtype), gradient_k * gradient.to(gradient_k.dtype), None


def ranked_terms(t: Tensor) -> Callable[..., Tensor]:
    """What turns T (B, R, N) into terms and its gradient: a kernel where one runs, top-k elsewhere."""
    if t.dtype == torch.float32 and kernels_run_on(t.device):
        from enlcn.ops.contrastive import triton_ranks

        if t.shape[-1] <= triton_ranks.MAX_POSITIONS:
            return triton_ranks.ranked_terms
    return by_top_k.ranked_terms


def _gradient_dtype(q: Tensor) -> torch.dtype:
    """What the gradient of T is kept and multiplied in: bfloat16 where autocast would multiply so, else T's type."""
    kind = q.device.type
    if torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16:
        return torch.bfloat16
    return torch.promote_types(q.dtype, torch.float32)


def _require_pair(q: Tensor, k: Tensor) -> None:
    """A ValueError that says what to give, where q and k are not queries and keys of one kind."""
    if q.ndim != 3 or k.ndim != 3 or q.shape[0] != k.shape[0] or q.shape[2] != k.shape[2]:
        raise ValueError(f"q and k must be (B, N, D); got {tuple(q.shape)}, {tuple(k.shape)}; heads go into B")


def _zero(q: Tensor, k: Tensor) -> Tensor:
    """0 that still hangs on q and k, so that a loss made of it can be differentiated."""
    return (at_least_float32(q).sum() + at_least_float32(k).sum()) * 0.0
