"""What the ENLCA kernels share: tiles of x, and the features of a tile's queries or keys.

A tile is BLOCK_N positions by all channels. Sizes that are no powers of two are padded (PAD_C, PAD_D, PAD_M) and
masked. Exponents are kept in base 2, where the hardware's exponential lives: F arrives multiplied by log2(e).

Types inside the kernels, chosen by `launch.number_types`:
    DOT     operands of the large products: bfloat16 for 16-bit x (features reach e^20: no float16), else float32.
    LOGIT   operands of F u: float16 for 16-bit x. |u| = sqrt(k) and F are small numbers, so its range is enough
            and its 11 bits make the exponent as good as tf32 does.
    PRECISION how float32 operands are multiplied: in tf32.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"

import triton
import triton.language as tl

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def tile_offsets(rows, columns, stride_row, stride_column, WIDE: tl.constexpr):
    """Offsets (rows, columns) inside one tile; WIDE where a channel's stride alone can pass 2^31."""
    if WIDE:
        columns = columns.to(tl.int64)
    return rows[:, None] * stride_row + columns[None, :] * stride_column


@triton.jit
def load_weight(pointer, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PAD_R: tl.constexpr, PAD_C: tl.constexpr):
    """A row-major (ROWS, COLUMNS) matrix, zero-padded to (PAD_R, PAD_C)."""
    rows = tl.arange(0, PAD_R)
    columns = tl.arange(0, PAD_C)
    mask = (rows < ROWS)[:, None] & (columns < COLUMNS)[None, :]
    return tl.load(pointer + rows[:, None] * COLUMNS + columns[None, :], mask=mask, other=0.0)


@triton.jit
def load_vector(pointer, SIZE: tl.constexpr, PAD: tl.constexpr):
    """A vector of SIZE numbers in float32, zero-padded to PAD."""
    places = tl.arange(0, PAD)
    return tl.load(pointer + places, mask=places < SIZE, other=0.0).to(tl.float32)


@triton.jit
def scaled_rows(x, weight, bias, length, norm_eps, PRECISION: tl.constexpr):
    """Project a tile and give each row its length. (n, C), (D, C), (D,) -> u (n, D), |u|^2 (n,), the factor (n,)."""
    projected = tl.dot(x, tl.trans(weight), input_precision=PRECISION) + bias[None, :]
    squared = tl.sum(projected * projected, axis=1)
    factor = length / tl.maximum(tl.sqrt(squared), norm_eps)
    return projected * factor[:, None], squared * factor * factor, factor


@triton.jit
def load_query_offsets(state_ptr, batch, length, half_log2_m, C: tl.constexpr, M: tl.constexpr, PAD_M: tl.constexpr):
    """z of an image's state, and the exponent's offset per feature that makes exp2(F q + offset) = phi(q) z.

    Without eps the factor exp(-|q|^2 / 2) cancels between queries; what it is for |q|^2 = k keeps numbers in range.
    """
    features = tl.arange(0, PAD_M)
    z = tl.load(state_ptr + batch * (M * C + M) + M * C + features, mask=features < M, other=1.0)
    offset = tl.log2(z) - length * length * (0.5 * LOG2E) - half_log2_m
    return tl.where(features < M, z, 0.0), tl.where(features < M, offset, float("-inf"))


@triton.jit
def query_weights(logits, squared, z, feature_offset, feature_eps, half_log2_m, HAS_EPS: tl.constexpr):
    """phi(q)_m z_m of a tile (n, M), and the part of it that depends on q (all of it without eps)."""
    if HAS_EPS:
        exponential = tl.exp2(logits + (squared * (-0.5 * LOG2E) - half_log2_m)[:, None])
        return (exponential + feature_eps) * z[None, :], exponential * z[None, :]
    else:  # noqa: RET505 (Triton follows one branch of a compile-time condition only if the other is an else)
        weights = tl.exp2(logits + feature_offset[None, :])
        return weights, weights


@triton.jit
def through_scaling(gradient, u, factor, length, norm_eps):
    """The gradient at the projection, from the one at u = factor * projection. (n, D) each.

    u has a fixed length, so its gradient loses the part along u; not where the floor under norms took over.
    """
    along = tl.sum(u * gradient, axis=1) / (length * length)
    along = tl.where(factor < length / norm_eps, along, 0.0)
    return factor[:, None] * (gradient - u * along[:, None])
