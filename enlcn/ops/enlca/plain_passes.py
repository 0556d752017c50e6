"""The passes of the kernels in PyTorch, for cards whose shared memory holds no tiling of one of them.

Each has the signature and the result of the kernel's launcher. Features exist for one chunk of positions at a time.

Axes: B batch, C channels, N = H W positions, n those of a chunk, D query/key width, M random features.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from enlcn.ops.enlca.naive import NORM_EPS
from enlcn.ops.linear_attention.chunked import CHUNK_SIZE
from enlcn.ops.precision import at_least_float32, no_autocast


def summarise(
    x: Tensor, weight: Tensor, bias: Tensor, proj: Tensor, amplification: float, feature_eps: float
) -> Tensor:
    """As `triton_forward.summarise`: (B, C, H, W) -> (B, M C + M), kx then z."""
    numbers = exponent_numbers(proj.shape[0], amplification, feature_eps)
    kx = z = torch.zeros((), device=x.device)
    with no_autocast(x.device):
        for (part,) in _chunks(x):
            u, _ = _scaled(part, weight, bias, numbers)
            phi = _exponentials(u, proj, numbers) + numbers[2]  # (B, n, M)
            kx, z = kx + phi.mT @ part, z + phi.sum(1)
    return torch.cat([kx.flatten(1), z], dim=1)


def apply_into(
    out: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    proj: Tensor,
    state: Tensor,
    values: Tensor,
    amplification: float,
    feature_eps: float,
) -> None:
    """As `triton_forward.apply_into`: writes x + the answer to each position's query into `out`."""
    numbers = exponent_numbers(proj.shape[0], amplification, feature_eps)
    z = state[:, -proj.shape[0] :]
    with no_autocast(x.device):
        for (part,), out_part in zip(_chunks(x), *_parts(_tokens(out)), strict=True):
            u, _ = _scaled(part, weight, bias, numbers)
            a, _ = _query_weights(u, proj, z, numbers)
            out_part.copy_(part + a @ values.to(a.dtype))


def through_queries(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    proj: Tensor,
    state: Tensor,
    values: Tensor,
    numbers: tuple[float, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """As `triton_backward.through_queries`."""
    z = state[:, -proj.shape[0] :]
    dx, dq = torch.empty_like(x), _projected_like(x, proj)
    dvalues = dlog_z = torch.zeros((), device=x.device)
    for (part, g), dx_part, dq_part in zip(_chunks(x, gradient), *_parts(_tokens(dx), dq), strict=True):
        u, slope = _scaled(part, weight, bias, numbers)
        a, moving = _query_weights(u, proj, z, numbers)
        da = g @ values.to(g.dtype).mT  # (B, n, M)
        da = da - (a * da).sum(-1, keepdim=True)
        gradient_part = _through_exponent(moving * da, u, slope, proj, numbers, tilted=numbers[2] > 0)
        dlog_z = dlog_z + (a * da).sum(1)
        dvalues = dvalues + a.mT @ g
        dx_part.copy_(g + gradient_part @ weight.to(g.dtype))
        dq_part.copy_(gradient_part)
    return dx, dq, torch.cat([dvalues.flatten(1), dlog_z], dim=1)


def through_keys(
    dx: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    proj: Tensor,
    state: Tensor,
    dmeans: Tensor,
    offsets: Tensor,
    numbers: tuple[float, ...],
) -> Tensor:
    """As `triton_backward.through_keys`: adds to dx; returns dk before scaling (B, N, D)."""
    z = state[:, None, -proj.shape[0] :]
    dk = _projected_like(x, proj)
    for (part,), dx_part, dk_part in zip(_chunks(x), *_parts(_tokens(dx), dk), strict=True):
        u, slope = _scaled(part, weight, bias, numbers)
        moving = _exponentials(u, proj, numbers) / z
        means = dmeans.to(part.dtype)
        dlogits = moving * (part @ means.mT + offsets[:, None])
        gradient_part = _through_exponent(dlogits, u, slope, proj, numbers, tilted=True)
        dx_part.add_((moving + numbers[2] / z) @ means + gradient_part @ weight.to(part.dtype))
        dk_part.copy_(gradient_part)
    return dk


def exponent_numbers(num_features: int, amplification: float, feature_eps: float) -> tuple[float, float, float, float]:
    """sqrt(k), the floor under norms, eps / sqrt(M), log2 sqrt(M): what phi is made of beside F and u."""
    half_log2_m = 0.5 * math.log2(num_features)
    return math.sqrt(amplification), NORM_EPS, feature_eps * 2.0**-half_log2_m, half_log2_m


def _tokens(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, N, C), the same memory."""
    return x.view(x.shape[0], x.shape[1], -1).mT


def _parts(*tokens: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Each (B, N, C), some positions at a time, the same memory."""
    return (each.split(CHUNK_SIZE, dim=1) for each in tokens)


def _chunks(*images: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The positions of (B, C, H, W), some at a time, as (B, n, C) in float32."""
    for chunk in zip(*_parts(*map(_tokens, images)), strict=True):
        yield tuple(at_least_float32(part) for part in chunk)


def _projected_like(x: Tensor, proj: Tensor) -> Tensor:
    """Room for a gradient of queries or keys, (B, N, D), in the type in which the kernels keep it."""
    dtype = torch.float32 if x.dtype == torch.float32 else torch.bfloat16
    return x.new_empty(x.shape[0], x.shape[2] * x.shape[3], proj.shape[1], dtype=dtype)


class _Slope(NamedTuple):
    """What a change of the projection does to u: the factor (B, n, 1), and where u's length cannot change."""

    factor: Tensor
    is_fixed: Tensor


def _scaled(tokens: Tensor, weight: Tensor, bias: Tensor, numbers: tuple[float, ...]) -> tuple[Tensor, _Slope]:
    """Projected positions given their length, (B, n, D)."""
    length, norm_eps = numbers[:2]
    projected = linear(tokens, weight.to(tokens.dtype), bias.to(tokens.dtype))
    norm = projected.norm(dim=-1, keepdim=True)
    factor = length / norm.clamp_min(norm_eps)
    return projected * factor, _Slope(factor, norm > norm_eps)


def _exponentials(u: Tensor, proj: Tensor, numbers: tuple[float, ...]) -> Tensor:
    """phi(u) without eps. (B, n, D) -> (B, n, M)."""
    logits = u @ proj.to(u.dtype).mT
    return (logits - u.square().sum(-1, keepdim=True) / 2 - numbers[3] * math.log(2.0)).exp()


def _query_weights(u: Tensor, proj: Tensor, z: Tensor, numbers: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """What each feature's mean value counts for each query, (B, n, M), and the part of it that depends on q."""
    moving = _exponentials(u, proj, numbers) * z[:, None]
    a = moving + numbers[2] * z[:, None]
    share = 1.0 / a.sum(-1, keepdim=True)
    return a * share, moving * share


def _through_exponent(
    dlogits: Tensor, u: Tensor, slope: _Slope, proj: Tensor, numbers: tuple[float, ...], *, tilted: bool
) -> Tensor:
    """The gradient at the projection from the one at the exponents Fu - |u|^2 / 2. (B, n, M) -> (B, n, D).

    Not tilted: those of a position sum up to zero, so that |u|^2 has no say.
    """
    du = dlogits @ proj.to(dlogits.dtype)
    if tilted:
        du = du - u * dlogits.sum(-1, keepdim=True)
    # u has a fixed length, so its gradient loses the part along u; not where the floor under norms took over.
    along = (u * du).sum(-1, keepdim=True) / numbers[0] ** 2
    return slope.factor * (du - u * along.where(slope.is_fixed, 0.0))
