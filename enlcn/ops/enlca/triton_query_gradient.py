"""Backward through the queries: one pass over x and the output's gradient g.

A query's answer is sum_m a_m v_m with weights a_m = phi(q)_m z_m / sum. So

    dv_m = sum_i a_im g_i,    d log a_im = a_im (g_i . v_m - sum_r a_ir g_i . v_r),

and the latter goes on to F q, to q, to the projection, and, summed over positions, to log z. Features are formed
again from x; nothing of size N x M is read or written.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"

import triton
import triton.language as tl

from enlcn.ops.enlca.triton_apply import load_values
from enlcn.ops.enlca.triton_tiles import (
    LOG2E,
    load_query_offsets,
    load_vector,
    load_weight,
    query_weights,
    scaled_rows,
    through_scaling,
    tile_offsets,
)


@triton.jit
def query_gradient_kernel(
    x_ptr,
    gradient_ptr,
    weight_ptr,
    bias_ptr,
    proj_ptr,
    state_ptr,  # (B, M C + M) float32: kx, then z
    values_ptr,  # (B, M, C)
    dx_ptr,
    dq_ptr,  # (B, N, D)
    dstate_ptr,  # (B, P, M C + M) float32: gradients of the values, then of log z
    num_positions,
    stride_b,
    stride_n,
    stride_c,
    gradient_stride_b,
    gradient_stride_n,
    gradient_stride_c,
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
    """Program (p, s, b): tiles p, p + P, ... of image b; dx and dv for channels s BLOCK_C onwards."""
    program = tl.program_id(0)
    first = tl.program_id(1) * BLOCK_C
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.arange(0, BLOCK_N)
    channels = tl.arange(0, PAD_C)
    widths = tl.arange(0, PAD_D)
    features = tl.arange(0, PAD_M)
    part = first + tl.arange(0, BLOCK_C)

    weight = load_weight(weight_ptr, D, C, PAD_D, PAD_C).to(DOT)
    part_mask = (widths < D)[:, None] & (part < C)[None, :]
    weight_part = tl.load(weight_ptr + widths[:, None] * C + part[None, :], mask=part_mask, other=0.0).to(DOT)
    bias = load_vector(bias_ptr, D, PAD_D)
    proj = load_weight(proj_ptr, M, D, PAD_M, PAD_D).to(tl.float32) * LOG2E
    z, feature_offset = load_query_offsets(state_ptr, batch, length, half_log2_m, C, M, PAD_M)

    dvalues = tl.zeros((PAD_M, BLOCK_C), dtype=tl.float32)
    dlog_z = tl.zeros((PAD_M,), dtype=tl.float32)
    for tile in tl.range(program, tl.cdiv(num_positions, BLOCK_N), tl.num_programs(0), num_stages=1):
        start = tile * BLOCK_N
        wide_start = start.to(tl.int64)
        inside = rows < num_positions - start
        base = x_ptr + batch * stride_b + wide_start * stride_n
        offsets = tile_offsets(rows, channels, stride_n, stride_c, WIDE)
        x = tl.load(base + offsets, mask=inside[:, None] & (channels < C)[None, :], other=0.0).to(DOT)
        u, squared, factor = scaled_rows(x, weight, bias, length, norm_eps, PRECISION)
        logits = tl.dot(u.to(LOGIT), tl.trans(proj.to(LOGIT)), input_precision=PRECISION)  # (n, M)
        a, moving = query_weights(logits, squared, z, feature_offset, feature_eps, half_log2_m, HAS_EPS)
        share = (1.0 / tl.sum(a, axis=1))[:, None]
        a *= share
        moving *= share

        gradient_base = gradient_ptr + batch * gradient_stride_b + wide_start * gradient_stride_n
        da = tl.zeros((BLOCK_N, PAD_M), dtype=tl.float32)
        for step in tl.static_range(0, PAD_C, BLOCK_C):
            places = step + tl.arange(0, BLOCK_C)
            step_offsets = tile_offsets(rows, places, gradient_stride_n, gradient_stride_c, WIDE)
            gradient = tl.load(gradient_base + step_offsets, mask=inside[:, None] & (places < C)[None, :], other=0.0)
            values = load_values(values_ptr, batch, step, C, M, PAD_M, BLOCK_C)
            da = tl.dot(gradient.to(DOT), tl.trans(values.to(DOT)), da, input_precision=PRECISION)  # (n, M)
        da -= tl.sum(a * da, axis=1)[:, None]
        dlog_z += tl.sum(a * da, axis=0)
        dlogits = moving * da
        du = tl.dot(dlogits.to(DOT), proj.to(DOT), input_precision=PRECISION) * (1.0 / LOG2E)
        if HAS_EPS:  # else the sum is zero
            du -= u * tl.sum(dlogits, axis=1)[:, None]
        dq = through_scaling(du, u, factor, length, norm_eps)

        part_inside = inside[:, None] & (part < C)[None, :]
        part_offsets = tile_offsets(rows, part, gradient_stride_n, gradient_stride_c, WIDE)
        gradient_part = tl.load(gradient_base + part_offsets, mask=part_inside, other=0.0)
        dvalues = tl.dot(tl.trans(a.to(DOT)), gradient_part.to(DOT), dvalues, input_precision=PRECISION)
        dx = gradient_part.to(tl.float32) + tl.dot(dq.to(DOT), weight_part, input_precision=PRECISION)
        dx_base = dx_ptr + batch * dx_stride_b + wide_start * dx_stride_n
        tl.store(dx_base + tile_offsets(rows, part, dx_stride_n, dx_stride_c, WIDE), dx, mask=part_inside)
        if first == 0:
            dq_pointers = dq_ptr + (batch * num_positions + wide_start) * D + rows[:, None] * D + widths[None, :]
            tl.store(dq_pointers, dq, mask=inside[:, None] & (widths < D)[None, :])

    dstate = dstate_ptr + (batch * tl.num_programs(0) + program) * (M * C + M)
    kept = (features < M)[:, None] & (part < C)[None, :]
    tl.store(dstate + features[:, None] * C + part[None, :], dvalues, mask=kept)
    if first == 0:
        tl.store(dstate + M * C + features, dlog_z, mask=features < M)
