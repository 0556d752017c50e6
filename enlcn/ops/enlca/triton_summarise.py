"""Pass 1 over x: kx = phi(K) X^T and z = phi(K) 1, without keys or features in memory.

Each program walks over every P-th tile of positions and keeps its sum in registers; a second kernel adds the P
sums in a fixed order, so two runs agree to the bit. A state is one row of M C + M numbers: kx, then z.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"

import triton
import triton.language as tl

from enlcn.ops.enlca.triton_tiles import LOG2E, load_vector, load_weight, scaled_rows, tile_offsets


@triton.jit
def summarise_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    proj_ptr,
    state_ptr,  # (B, P, M C + M) float32
    num_positions,
    stride_b,
    stride_n,
    stride_c,
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
):
    """Program (p, s, b): tiles p, p + P, ... of image b, channels s BLOCK_C onwards of kx."""
    program = tl.program_id(0)
    first_channel = tl.program_id(1) * BLOCK_C
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.arange(0, BLOCK_N)
    channels = tl.arange(0, PAD_C)
    part = first_channel + tl.arange(0, BLOCK_C)
    features = tl.arange(0, PAD_M)

    weight = load_weight(weight_ptr, D, C, PAD_D, PAD_C).to(DOT)
    bias = load_vector(bias_ptr, D, PAD_D)
    proj = (load_weight(proj_ptr, M, D, PAD_M, PAD_D).to(tl.float32) * LOG2E).to(LOGIT)
    offsets = tile_offsets(rows, channels, stride_n, stride_c, WIDE)
    part_offsets = tile_offsets(rows, part, stride_n, stride_c, WIDE)

    kx = tl.zeros((PAD_M, BLOCK_C), dtype=tl.float32)
    z = tl.zeros((PAD_M,), dtype=tl.float32)
    for tile in tl.range(program, tl.cdiv(num_positions, BLOCK_N), tl.num_programs(0), num_stages=STAGES):
        start = tile * BLOCK_N
        base = x_ptr + batch * stride_b + start.to(tl.int64) * stride_n
        inside = rows < num_positions - start
        x = tl.load(base + offsets, mask=inside[:, None] & (channels < C)[None, :], other=0.0).to(DOT)
        u, squared, _ = scaled_rows(x, weight, bias, length, norm_eps, PRECISION)
        # Features by positions, so that phi is an operand of the last product as it leaves this one.
        logits = tl.dot(proj, tl.trans(u.to(LOGIT)), input_precision=PRECISION)  # (M, n)
        phi = tl.exp2(logits + (squared * (-0.5 * LOG2E) - half_log2_m)[None, :])
        if HAS_EPS:
            phi += feature_eps
        phi = tl.where(inside[None, :], phi, 0.0).to(DOT)
        if BLOCK_C < PAD_C:
            x = tl.load(base + part_offsets, mask=inside[:, None] & (part < C)[None, :], other=0.0).to(DOT)
        kx = tl.dot(phi, x, kx, input_precision=PRECISION)
        # What was rounded for kx is summed for z: the weights of a query then add up to one exactly.
        z += tl.sum(phi.to(tl.float32), axis=1)

    state = state_ptr + (batch * tl.num_programs(0) + program) * (M * C + M)
    tl.store(state + features[:, None] * C + part[None, :], kx, mask=(features < M)[:, None] & (part < C)[None, :])
    if first_channel == 0:
        tl.store(state + M * C + features, z, mask=features < M)


@triton.jit
def add_states_kernel(
    states_ptr,  # (B, P, size) float32
    sum_ptr,  # (B, size) float32
    num_states,
    size,
    BLOCK: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    """Program (i, b): numbers i BLOCK onwards of image b, its P states added BLOCK_P at a time, in order."""
    batch = tl.program_id(1).to(tl.int64)
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    states = tl.arange(0, BLOCK_P)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, num_states, BLOCK_P):
        row = (first + states).to(tl.int64)
        mask = (row < num_states)[:, None] & (places < size)[None, :]
        values = tl.load(
            states_ptr + (batch * num_states + row)[:, None] * size + places[None, :], mask=mask, other=0.0
        )
        total += tl.sum(values, axis=0)
    tl.store(sum_ptr + batch * size + places, total, mask=places < size)
