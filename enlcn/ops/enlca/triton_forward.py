"""The forward pass of ENLCA by kernels: x read twice and written once, nothing of size N x M in memory.

Axes: B batch, C channels, N = H W positions, D query/key width, M random features.
"""

# mypy: disable-error-code="import-untyped,import-not-found"

import torch
import triton
from torch import Tensor

from enlcn.ops.enlca import launch, plain_passes
from enlcn.ops.enlca.launch import Sizes, Tiling
from enlcn.ops.enlca.plain_passes import exponent_numbers
from enlcn.ops.enlca.triton_apply import apply_kernel, mean_values_kernel
from enlcn.ops.enlca.triton_summarise import add_states_kernel, summarise_kernel


def forward(
    x: Tensor,
    query_weight: Tensor,
    query_bias: Tensor,
    key_weight: Tensor,
    key_bias: Tensor,
    value_weight: Tensor,
    value_bias: Tensor,
    proj: Tensor,
    amplification: float,
    feature_eps: float,
    res_scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `naive.enlca`, and what its backward needs.

    Returns:
        x + res_scale * Y (B, C, H, W); the state (B, M C + M), kx then z, float32; res_scale times the mean value
        of each feature (B, M, C).
    """
    x = launch.with_one_position_stride(x)
    keys = (x, key_weight, key_bias, proj, amplification, feature_eps)
    state = launch.where_it_fits(summarise, plain_passes.summarise, *keys)
    values = mean_values(state, value_weight, value_bias, proj.shape[0], res_scale, launch.operand_dtype(x.dtype))
    out = torch.empty_like(x)
    queries = (out, x, query_weight, query_bias, proj, state, values, amplification, feature_eps)
    launch.where_it_fits(apply_into, plain_passes.apply_into, *queries)
    return out, state, values


def summarise(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    proj: Tensor,
    amplification: float,
    feature_eps: float,
    tilings: list[Tiling] | None = None,
) -> Tensor:
    """Pass 1: the state of x, additive over parts of an image.

    Args:
        x: (B, C, H, W), rows at one stride.
        weight, bias: delta, (D, C) and (D,).
        proj: F (M, D).
        amplification, feature_eps: as in `naive.enlca`.
        tilings: overrides the ladder; for measurements.

    Returns:
        (B, M C + M) float32: kx = phi(K) X^T, then z = phi(K) 1.
    """
    batch, channels, height, width = x.shape
    sizes = Sizes(channels, proj.shape[1], proj.shape[0])
    size = sizes.features * (channels + 1)
    states = x.new_empty(0)

    def run(tiling: Tiling) -> None:
        nonlocal states
        parts = triton.cdiv(channels, tiling.block_c)
        programs = launch.num_programs(tiling, height * width, batch * parts, x.device)
        states = x.new_empty(batch, programs, size, dtype=torch.float32)
        summarise_kernel[programs, parts, batch](
            x,
            weight.contiguous(),
            bias,
            proj.contiguous(),
            states,
            height * width,
            *launch.token_strides(x),
            *exponent_numbers(sizes.features, amplification, feature_eps),
            **sizes.constants,
            **launch.number_types(x.dtype),
            BLOCK_N=tiling.block_n,
            BLOCK_C=tiling.block_c,
            STAGES=tiling.stages,
            HAS_EPS=feature_eps > 0,
            WIDE=launch.is_wide(tiling, sizes, x),
            num_warps=tiling.warps,
        )

    key = ("summarise", sizes, x.dtype, x.device, feature_eps > 0)
    launch.run_first_that_fits(key, tilings or launch.summarise_tilings(sizes, x.dtype), run)
    return add_states(states)


def add_states(states: Tensor) -> Tensor:
    """The sum over programs, in a fixed order. (B, P, size) -> (B, size), float32."""
    batch, num_states, size = states.shape
    total = states.new_empty(batch, size)
    # One load of a program: 16 states of 256 numbers, 32 numbers for each thread.
    add_states_kernel[triton.cdiv(size, 256), batch](
        states, total, num_states, size, BLOCK=256, BLOCK_P=16, num_warps=4
    )
    return total


def mean_values(
    state: Tensor, weight: Tensor, bias: Tensor, num_features: int, res_scale: float, dtype: torch.dtype
) -> Tensor:
    """res_scale * psi(kx / z): each feature's mean value. (B, M C + M) -> (B, M, C) in `dtype`."""
    batch, channels = state.shape[0], weight.shape[0]
    values = state.new_empty(batch, num_features, channels, dtype=dtype)
    sizes = Sizes(channels, 16, num_features)
    block_c = min(sizes.padded[0], 32)
    mean_values_kernel[triton.cdiv(num_features, 16), triton.cdiv(channels, block_c), batch](
        state,
        weight.contiguous(),
        bias,
        values,
        res_scale,
        C=channels,
        M=num_features,
        PAD_C=sizes.padded[0],
        BLOCK_M=16,
        BLOCK_C=block_c,
        num_warps=4,
    )
    return values


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
    tilings: list[Tiling] | None = None,
) -> None:
    """Pass 2: write x + the answer to each position's query into `out`.

    Args:
        out, x: (B, C, H, W), rows at one stride.
        weight, bias: theta, (D, C) and (D,).
        proj: F (M, D).
        state: (B, M C + M), see `summarise`.
        values: (B, M, C), see `mean_values`.
        amplification, feature_eps: as in `naive.enlca`.
        tilings: overrides the ladder; for measurements.
    """
    batch, channels, height, width = x.shape
    sizes = Sizes(channels, proj.shape[1], proj.shape[0])

    def run(tiling: Tiling) -> None:
        programs = launch.num_programs(tiling, height * width, batch, x.device)
        apply_kernel[programs, batch](
            x,
            weight.contiguous(),
            bias,
            proj.contiguous(),
            state,
            values,
            out,
            height * width,
            *launch.token_strides(x),
            *launch.token_strides(out),
            *exponent_numbers(sizes.features, amplification, feature_eps),
            **sizes.constants,
            **launch.number_types(x.dtype),
            BLOCK_N=tiling.block_n,
            BLOCK_C=tiling.block_c,
            STAGES=tiling.stages,
            HAS_EPS=feature_eps > 0,
            WIDE=launch.is_wide(tiling, sizes, x, out),
            HOLD=tiling.hold,
            num_warps=tiling.warps,
        )

    key = ("apply", sizes, x.dtype, x.device, feature_eps > 0)
    launch.run_first_that_fits(key, tilings or launch.apply_tilings(sizes, x.dtype), run)
