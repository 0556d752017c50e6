"""The backward pass of ENLCA by kernels: features recomputed from x; saved are x, the state and the mean values.

Axes: B batch, C channels, N = H W positions, D query/key width, M random features.
"""

# mypy: disable-error-code="import-untyped,import-not-found"

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from enlcn.ops.enlca import launch, plain_passes
from enlcn.ops.enlca.launch import Sizes, Tiling
from enlcn.ops.enlca.plain_passes import exponent_numbers
from enlcn.ops.enlca.triton_forward import add_states
from enlcn.ops.enlca.triton_key_gradient import key_gradient_kernel
from enlcn.ops.enlca.triton_query_gradient import query_gradient_kernel


class Gradients(NamedTuple):
    """Gradients of the arguments of `naive.enlca`, in their order and shapes; F has none."""

    x: Tensor
    query_weight: Tensor
    query_bias: Tensor
    key_weight: Tensor
    key_bias: Tensor
    value_weight: Tensor
    value_bias: Tensor


def backward(
    gradient: Tensor,
    x: Tensor,
    query_weight: Tensor,
    query_bias: Tensor,
    key_weight: Tensor,
    key_bias: Tensor,
    value_weight: Tensor,
    value_bias: Tensor,
    proj: Tensor,
    state: Tensor,
    values: Tensor,
    amplification: float,
    feature_eps: float,
    res_scale: float,
) -> Gradients:
    """Gradients of x and the six weights.

    Args:
        gradient: of the output, (B, C, H, W).
        x, query_weight, ..., proj: what `triton_forward.forward` was given.
        state, values: what it returned.
        amplification, feature_eps, res_scale: as there.
    """
    x = launch.with_one_position_stride(x)
    gradient = launch.with_one_position_stride(gradient)
    num_features, channels = proj.shape[0], x.shape[1]
    numbers = exponent_numbers(num_features, amplification, feature_eps)

    queries = (gradient, x, query_weight, query_bias, proj, state, values, numbers)
    dx, dq, dstate = launch.where_it_fits(through_queries, plain_passes.through_queries, *queries)
    dlog_z = dstate[:, num_features * channels :]  # (B, M)
    dvalues = dstate[:, : num_features * channels].view(values.shape) * res_scale  # (B, M, C)
    z = state[:, num_features * channels :]
    means = state[:, : num_features * channels].view(values.shape) / z.unsqueeze(-1)  # (B, M, C): of x
    # In the kernel's own precision, so that d.x - d.mean there is the difference it should be.
    dmeans = (dvalues @ value_weight.to(dvalues.dtype)).to(launch.operand_dtype(x.dtype)).contiguous()
    offsets = dlog_z - (dmeans.to(means.dtype) * means).sum(-1)
    keys = (dx, x, key_weight, key_bias, proj, state, dmeans, offsets.contiguous(), numbers)
    dk = launch.where_it_fits(through_keys, plain_passes.through_keys, *keys)

    tokens = x.flatten(2).mT  # (B, N, C)
    return Gradients(
        dx,
        _weight_gradient(dq, tokens).to(query_weight.dtype),
        dq.sum((0, 1), dtype=torch.float32).to(query_bias.dtype),
        _weight_gradient(dk, tokens).to(key_weight.dtype),
        dk.sum((0, 1), dtype=torch.float32).to(key_bias.dtype),
        (dvalues.mT @ means).sum(0).to(value_weight.dtype),
        dvalues.sum((0, 1)).to(value_bias.dtype),
    )


def _weight_gradient(projected: Tensor, tokens: Tensor) -> Tensor:
    """(B, N, D), (B, N, C) -> (D, C). A batch's products are rounded once each, their sum is not."""
    return (projected.mT @ tokens.to(projected.dtype)).sum(0, dtype=torch.float32)


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
    """dx so far (B, C, H, W), dq before scaling (B, N, D), and the gradients of values and log z (B, M C + M)."""
    batch, channels, height, width = x.shape
    sizes = Sizes(channels, proj.shape[1], proj.shape[0])
    dx = torch.empty_like(x)
    dq = x.new_empty(batch, height * width, sizes.width, dtype=launch.operand_dtype(x.dtype))
    dstates = state

    def run(tiling: Tiling) -> None:
        nonlocal dstates
        parts = triton.cdiv(channels, tiling.block_c)
        programs = launch.num_programs(tiling, height * width, batch * parts, x.device)
        dstates = state.new_empty(batch, programs, state.shape[1])
        query_gradient_kernel[programs, parts, batch](
            x,
            gradient,
            weight.contiguous(),
            bias,
            proj.contiguous(),
            state,
            values,
            dx,
            dq,
            dstates,
            height * width,
            *launch.token_strides(x),
            *launch.token_strides(gradient),
            *launch.token_strides(dx),
            *numbers,
            **sizes.constants,
            **launch.number_types(x.dtype),
            BLOCK_N=tiling.block_n,
            BLOCK_C=tiling.block_c,
            HAS_EPS=numbers[2] > 0,
            WIDE=launch.is_wide(tiling, sizes, x, gradient, dx),
            num_warps=tiling.warps,
        )

    key = ("query gradient", sizes, x.dtype, x.device, numbers[2] > 0)
    launch.run_first_that_fits(key, launch.query_gradient_tilings(sizes, x.dtype), run)
    return dx, dq, add_states(dstates)


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
    """Adds to dx; returns dk before scaling (B, N, D)."""
    batch, channels, height, width = x.shape
    sizes = Sizes(channels, proj.shape[1], proj.shape[0])
    dk = x.new_empty(batch, height * width, sizes.width, dtype=launch.operand_dtype(x.dtype))

    def run(tiling: Tiling) -> None:
        key_gradient_kernel[triton.cdiv(height * width, tiling.block_n), batch](
            x,
            weight.contiguous(),
            bias,
            proj.contiguous(),
            state,
            dmeans,
            offsets,
            dx,
            dk,
            height * width,
            *launch.token_strides(x),
            *launch.token_strides(dx),
            *numbers,
            **sizes.constants,
            **launch.number_types(x.dtype),
            BLOCK_N=tiling.block_n,
            BLOCK_C=tiling.block_c,
            HAS_EPS=numbers[2] > 0,
            WIDE=launch.is_wide(tiling, sizes, x, dx),
            num_warps=tiling.warps,
        )

    key = ("key gradient", sizes, x.dtype, x.device, numbers[2] > 0)
    launch.run_first_that_fits(key, launch.key_gradient_tilings(sizes, x.dtype), run)
    return dk
