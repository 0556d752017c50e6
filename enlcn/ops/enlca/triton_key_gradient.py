"""Backward through the keys: one pass over x, after the gradients of the mean values are known.

Feature m's mean is sum_j p_jm x_j with p_jm = phi(k_j)_m / z_m. From its gradient d_m and that of log z_m

    dx_j = sum_m p_jm d_m + (what k_j gives),    d log p_jm = p_jm (d_m . x_j + c_m),

where c_m = dlog z_m - d_m . mean_m gathers all that reaches z. All numbers are of ordinary size: z divides phi.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"

import triton
import triton.language as tl

from enlcn.ops.enlca.triton_apply import load_values
from enlcn.ops.enlca.triton_tiles import LOG2E, load_vector, load_weight, scaled_rows, through_scaling, tile_offsets


@triton.jit
def key_gradient_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    proj_ptr,
    state_ptr,  # (B, M C + M) float32: kx, then z
    dmeans_ptr,  # (B, M, C): d_m
    offsets_ptr,  # (B, M) float32: c_m
    dx_ptr,  # holds what came through the queries; added to
    dk_ptr,  # (B, N, D)
    num_positions,
    stride_b,
    stride_n,
    stride_c,
    dx_stride_b,
    dx_stride_n,
    dx_stride_c,
    length,
    norm_eps,
    feature_eps,
    half_log2_m,
    C: tl.constexpr,
    D: tl.constexpr,
    M: tl.constexpr,
    PAD_C: tl.constexpr,
    PAD_D: tl.constexpr,
    PAD_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
    DOT: tl.constexpr,
    LOGIT: tl.constexpr,
    PRECISION: tl.constexpr,
    HAS_EPS: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Program (i, b): tile i of image b, the output BLOCK_C channels at a time."""
    batch = tl.program_id(1).to(tl.int64)
    start = tl.program_id(0) * BLOCK_N
    wide_start = start.to(tl.int64)
    rows = tl.arange(0, BLOCK_N)
    channels = tl.arange(0, PAD_C)
    widths = tl.arange(0, PAD_D)
    features = tl.arange(0, PAD_M)
    inside = rows < num_positions - start

    weight = load_weight(weight_ptr, D, C, PAD_D, PAD_C).to(DOT)
    bias = load_vector(bias_ptr, D, PAD_D)
    proj = load_weight(proj_ptr, M, D, PAD_M, PAD_D).to(tl.float32) * LOG2E
    base = x_ptr + batch * stride_b + wide_start * stride_n
    mask = inside[:, None] & (channels < C)[None, :]
    x = tl.load(base + tile_offsets(rows, channels, stride_n, stride_c, WIDE), mask=mask, other=0.0).to(DOT)
    u, squared, factor = scaled_rows(x, weight, bias, length, norm_eps, PRECISION)
    logits = tl.dot(u.to(LOGIT), tl.trans(proj.to(LOGIT)), input_precision=PRECISION)  # (n, M)
    z = tl.load(state_ptr + batch * (M * C + M) + M * C + features, mask=features < M, other=1.0)
    exponent = logits + (squared * (-0.5 * LOG2E) - half_log2_m)[:, None]
    moving = tl.where((features < M)[None, :], tl.exp2(exponent - tl.log2(z)[None, :]), 0.0)
    p = moving
    if HAS_EPS:
        p += tl.where(features < M, feature_eps / z, 0.0)[None, :]

    c = tl.load(offsets_ptr + batch * M + features, mask=features < M, other=0.0)
    dmeans = load_values(dmeans_ptr, batch, 0, C, M, PAD_M, PAD_C).to(DOT)
    dlogits = moving * (tl.dot(x, tl.trans(dmeans), input_precision=PRECISION) + c[None, :])
    du = tl.dot(dlogits.to(DOT), proj.to(DOT), input_precision=PRECISION) * (1.0 / LOG2E)
    du -= u * tl.sum(dlogits, axis=1)[:, None]
    dk = through_scaling(du, u, factor, length, norm_eps)
    mask = inside[:, None] & (widths < D)[None, :]
    tl.store(dk_ptr + (batch * num_positions + wide_start) * D + rows[:, None] * D + widths[None, :], dk, mask=mask)

    base = dx_ptr + batch * dx_stride_b + wide_start * dx_stride_n
    for first in tl.static_range(0, PAD_C, BLOCK_C):
        part = first + tl.arange(0, BLOCK_C)
        part_mask = (widths < D)[:, None] & (part < C)[None, :]
        weight_part = tl.load(weight_ptr + widths[:, None] * C + part[None, :], mask=part_mask, other=0.0).to(DOT)
        dmeans_part = load_values(dmeans_ptr, batch, first, C, M, PAD_M, BLOCK_C).to(DOT)
        dx = tl.dot(p.to(DOT), dmeans_part, input_precision=PRECISION)
        dx = tl.dot(dk.to(DOT), weight_part, dx, input_precision=PRECISION)
        mask = inside[:, None] & (part < C)[None, :]
        pointers = base + tile_offsets(rows, part, dx_stride_n, dx_stride_c, WIDE)
        tl.store(pointers, tl.load(pointers, mask=mask, other=0.0).to(tl.float32) + dx, mask=mask)
