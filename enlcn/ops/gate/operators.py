"""The kernels as operators PyTorch knows (torch.library): autograd, torch.compile and CUDA graphs keep them whole."""

from typing import Any

import torch
from torch import Tensor

from enlcn.ops.gate.launch import backward, forward, planes


@torch.library.custom_op("enlcn::gate", mutates_args=())
def gate_operator(expanded: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, keeps: bool) -> tuple[Tensor, Tensor]:
    """See `launch.forward`. What it keeps is for the backward pass."""
    with torch.cuda.device_of(expanded):  # Triton launches on the current device
        return forward(expanded, offset, weight, bias, keeps=keeps)


@gate_operator.register_fake
def _(expanded: Tensor, offset: Tensor, weight: Tensor, bias: Tensor, keeps: bool) -> tuple[Tensor, Tensor]:
    batch, twice, height, width = expanded.shape
    out, kept = (planes(expanded, batch, twice // 2, rows, width) for rows in (height, height if keeps else 0))
    return out, kept


@torch.library.custom_op("enlcn::gate_backward", mutates_args=())
def gate_backward_operator(
    gradient: Tensor, expanded: Tensor, kept: Tensor, offset: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `launch.backward`."""
    with torch.cuda.device_of(expanded):
        return backward(gradient, expanded, kept, offset, weight)


@gate_backward_operator.register_fake
def _(
    gradient: Tensor, expanded: Tensor, kept: Tensor, offset: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    channels, _, side, _ = weight.shape
    sizes = ((channels, 2), (channels, side * side))
    of_shifts, of_weight = (expanded.new_empty(size, dtype=torch.float32) for size in sizes)
    return planes(expanded, *expanded.shape), of_shifts, of_weight


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor, bool], output: tuple[Tensor, Tensor]) -> None:
    expanded, offset, weight, bias, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.bias_dtype = bias.dtype
    ctx.save_for_backward(expanded, output[1], offset, weight)


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    offset, weight = ctx.saved_tensors[2:]
    of_expanded, of_shifts, of_weight = gate_backward_operator(gradient, *ctx.saved_tensors)
    of_offset, of_bias = of_shifts.unbind(1)
    of_weight = of_weight.view(weight.shape).to(weight.dtype)
    return of_expanded, of_offset.to(offset.dtype), of_weight, of_bias.to(ctx.bias_dtype), None


gate_operator.register_autograd(_differentiate, setup_context=_save)
