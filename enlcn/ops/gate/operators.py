"""The kernels as operators PyTorch knows (torch.library): autograd, torch.compile and CUDA graphs keep them whole."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from enlcn.ops.gate import naive
from enlcn.ops.gate.launch import backward, forward, planes
from enlcn.ops.second_derivatives import differentiable_gradients


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
    ctx.save_for_backward(expanded, output[1], offset, weight, bias)


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    expanded, kept, offset, weight, bias = ctx.saved_tensors  # once: checkpoints unpack each but once
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # the gradient is to be differentiated itself
        inputs = (expanded, offset, weight, bias)
        by_naive = partial(_naive, *inputs)
        return (*differentiable_gradients(by_naive, inputs, ctx.needs_input_grad, gradient), None)
    if not kept.numel():
        raise RuntimeError("enlcn::gate was called with keeps=False, which is for where no gradient is asked for")
    of_expanded, of_shifts, of_weight = gate_backward_operator(gradient, expanded, kept, offset, weight)
    of_offset, of_bias = of_shifts.unbind(1)
    of_weight = of_weight.view(weight.shape).to(weight.dtype)
    return of_expanded, of_offset.to(offset.dtype), of_weight, of_bias.to(bias.dtype), None


def _naive(expanded: Tensor, offset: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """As the kernels, which take weights of another type."""
    return naive(expanded, offset, weight.to(expanded.dtype), bias.to(expanded.dtype))


gate_operator.register_autograd(_differentiate, setup_context=_save)
