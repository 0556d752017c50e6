"""Linear attention with positive random features, and the one place where its implementation is chosen.

`linear_attention` is the whole. Its two halves, `summarise` and `apply`, meet in the state (kv, z) of M x (C + 1)
numbers, which is additive over chunks of positions: what a huge image needs to be streamed exactly.

Axes: B batch, N positions, D query/key width, M random features, C value channels.
"""

import math
from types import ModuleType

import torch
from torch import Tensor

from enlcn.ops.linear_attention import chunked, naive

BACKENDS: dict[str, ModuleType] = {"naive": naive, "chunked": chunked}

_LOG_FLOAT32_MAX = 88.7
_LOG_POSITIONS = math.log(4e8)
# phi(q).phi(k) is a sum of terms around exp(-k): beyond this k all of them may be too small for float32.
_VANISHING_AMPLIFICATION = 64.0


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    proj: Tensor,
    *,
    eps: float = 0.0,
    stable: bool = False,
    backend: str = "auto",
) -> Tensor:
    """Random-feature estimate of softmax(q k^T) v, in time and memory linear in N.

    Args:
        q, k: queries and keys (B, N, D).
        v: values (B, N, C).
        proj: the random matrix F (M, D), see `draw_projection`.
        eps: added to the features as the authors' code does; 0 is the paper's.
        stable: rescale each feature by its largest key so that no |q|, |k| overflows; costs a pass over k.
        backend: "auto", "naive" or "chunked".

    Returns:
        (B, N, C) in q's type.
    """
    if not q.ndim == k.ndim == v.ndim == 3:
        shapes = ", ".join(str(tuple(each.shape)) for each in (q, k, v))
        raise ValueError(f"q, k and v must be (B, N, D), (B, N, D) and (B, N, C); got {shapes}; heads go into B")
    implementation = choose(backend, k.shape[1])
    shift = implementation.feature_maximum(k, proj, eps) if stable else None
    kv, z = implementation.summarise(k, v, proj, eps, shift)
    result: Tensor = implementation.apply(q, kv, z, proj, eps, shift)
    return result


def choose(backend: str, num_positions: int) -> ModuleType:
    """The module that implements `backend`; "auto" takes chunks where there is more than one of them.

    While a program is exported it takes the naive one: the number of positions would be fixed by the question.
    """
    if backend == "auto" and torch.compiler.is_exporting():
        return naive
    if backend == "auto":
        return chunked if num_positions > chunked.CHUNK_SIZE else naive
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; choose from auto, {', '.join(BACKENDS)}")
    return BACKENDS[backend]


def needs_rescaling(amplification: float | None, dim: int, num_features: int) -> bool:
    """Whether phi(q).kv can leave float32: overflow at 4e8 positions, all along F's longest row, or vanish.

    Which comes first depends on D: long rows make features overflow, short ones let them vanish.

    Args:
        amplification: k = |q|^2 = |k|^2, or None where the norms are not bounded.
        dim: D.
        num_features: M.
    """
    if amplification is None or amplification > _VANISHING_AMPLIFICATION:
        return True
    longest_row = math.sqrt(dim) + 2.5  # chi has deviation 0.7: 3.5 of them above the mean
    length = min(math.sqrt(amplification), longest_row)  # where phi is largest
    log_phi = length * longest_row - length**2 / 2
    return 2 * log_phi + _LOG_POSITIONS - math.log(num_features) > _LOG_FLOAT32_MAX


__all__ = ["BACKENDS", "choose", "linear_attention", "needs_rescaling"]
