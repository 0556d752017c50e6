"""Pass 2 over x: every position's answer, added to it.

With the state (kx, z) known, feature m holds the mean value v_m = psi(kx_m / z_m), and a query's answer is the mean
of those, weighted by phi(q)_m z_m. `mean_values_kernel` makes the v_m (M x C, tiny); `apply_kernel` reads x, weighs
and writes x + res_scale * Y, with res_scale already in v_m.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"

import triton
import triton.language as tl

from enlcn.ops.enlca.triton_tiles import (
    LOG2E,
    load_query_offsets,
    load_vector,
    load_weight,
    query_weights,
    scaled_rows,
    tile_offsets,
)


@triton.jit
def mean_values_kernel(
    state_ptr,  # (B, M C + M) float32: kx, then z
    weight_ptr,
    bias_ptr,
    values_ptr,  # (B, M, C)
    res_scale,
    C: tl.constexpr,
    M: tl.constexpr,
    PAD_C: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """Program (i, j, b): values of BLOCK_M features, BLOCK_C channels."""
    batch = tl.program_id(2).to(tl.int64)
    features = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    outputs = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    channels = tl.arange(0, PAD_C)
    state = state_ptr + batch * (M * C + M)

    kx_mask = (features < M)[:, None] & (channels < C)[None, :]
    kx = tl.load(state + features[:, None] * C + channels[None, :], mask=kx_mask, other=0.0)
    z = tl.load(state + M * C + features, mask=features < M, other=1.0)
    weight_mask = (outputs < C)[:, None] & (channels < C)[None, :]
    weight = tl.load(weight_ptr + outputs[:, None] * C + channels[None, :], mask=weight_mask, other=0.0)
    bias = tl.load(bias_ptr + outputs, mask=outputs < C, other=0.0).to(tl.float32)

    values = tl.dot(kx / z[:, None], tl.trans(weight.to(tl.float32)), input_precision="tf32x3") + bias[None, :]
    tl.store(
        values_ptr + (batch * M + features)[:, None] * C + outputs[None, :],
        values * res_scale,
        mask=(features < M)[:, None] & (outputs < C)[None, :],
    )


@triton.jit
def apply_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    proj_ptr,
    state_ptr,  # (B, M C + M) float32: kx, then z
    values_ptr,  # (B, M, C)
    out_ptr,
    num_positions,
    stride_b,
    stride_n,
    stride_c,
    out_stride_b,
    out_stride_n,
    out_stride_c,
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
    STAGES: tl.constexpr,
    DOT: tl.constexpr,
    LOGIT: tl.constexpr,
    PRECISION: tl.constexpr,
    HAS_EPS: tl.constexpr,
    WIDE: tl.constexpr,
    HOLD: tl.constexpr,
):
    """Program (p, b): tiles p, p + P, ... of image b, the output BLOCK_C channels at a time."""
    program = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    rows = tl.arange(0, BLOCK_N)
    channels = tl.arange(0, PAD_C)

    weight = load_weight(weight_ptr, D, C, PAD_D, PAD_C).to(DOT)
    bias = load_vector(bias_ptr, D, PAD_D)
    proj = (load_weight(proj_ptr, M, D, PAD_M, PAD_D).to(tl.float32) * LOG2E).to(LOGIT)
    z, feature_offset = load_query_offsets(state_ptr, batch, length, half_log2_m, C, M, PAD_M)
    offsets = tile_offsets(rows, channels, stride_n, stride_c, WIDE)
    if HOLD:
        values_low = load_values(values_ptr, batch, 0, C, M, PAD_M, BLOCK_C).to(DOT)
        values_high = load_values(values_ptr, batch, BLOCK_C, C, M, PAD_M, BLOCK_C).to(DOT)

    for tile in tl.range(program, tl.cdiv(num_positions, BLOCK_N), tl.num_programs(0), num_stages=STAGES):
        start = tile * BLOCK_N
        base = x_ptr + batch * stride_b + start.to(tl.int64) * stride_n
        out_base = out_ptr + batch * out_stride_b + start.to(tl.int64) * out_stride_n
        inside = rows < num_positions - start
        x = tl.load(base + offsets, mask=inside[:, None] & (channels < C)[None, :], other=0.0)
        u, squared, _ = scaled_rows(x.to(DOT), weight, bias, length, norm_eps, PRECISION)
        logits = tl.dot(u.to(LOGIT), tl.trans(proj), input_precision=PRECISION)  # (n, M)
        weights, _ = query_weights(logits, squared, z, feature_offset, feature_eps, half_log2_m, HAS_EPS)
        weights = weights.to(DOT)
        share = 1.0 / tl.sum(weights.to(tl.float32), axis=1)
        for first in tl.static_range(0, PAD_C, BLOCK_C):
            if HOLD:
                values = values_low if first == 0 else values_high
            else:
                values = load_values(values_ptr, batch, first, C, M, PAD_M, BLOCK_C).to(DOT)
            y = tl.dot(weights, values, input_precision=PRECISION) * share[:, None]
            part = first + tl.arange(0, BLOCK_C)
            mask = inside[:, None] & (part < C)[None, :]
            # From the cache: the tile was read just before.
            x_part = tl.load(base + tile_offsets(rows, part, stride_n, stride_c, WIDE), mask=mask, other=0.0)
            out_offsets = tile_offsets(rows, part, out_stride_n, out_stride_c, WIDE)
            tl.store(out_base + out_offsets, x_part.to(tl.float32) + y, mask=mask)


@triton.jit
def load_values(values_ptr, batch, first, C: tl.constexpr, M: tl.constexpr, PAD_M: tl.constexpr, BLOCK_C: tl.constexpr):
    """Channels `first` onwards of an image's mean values, zero-padded. -> (PAD_M, BLOCK_C)"""
    features = tl.arange(0, PAD_M)
    part = first + tl.arange(0, BLOCK_C)
    mask = (features < M)[:, None] & (part < C)[None, :]
    return tl.load(values_ptr + batch * (M * C) + features[:, None] * C + part[None, :], mask=mask, other=0.0)
