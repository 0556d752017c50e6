"""The kernels as operators PyTorch knows (torch.library): autograd, torch.compile and CUDA graphs keep them whole."""

from typing import Any

import torch
from torch import Tensor

from enlcn.ops.gate.triton_gate import backward, forward


@torch.library.custom_op("enlcn::gate", mutates_args=())
def gate_operator(expanded: Tensor, weight: Tensor, bias: Tensor, keeps: bool) -> tuple[Tensor, Tensor]:
    """See `triton_gate.forward`. What it keeps is for the backward pass."""
    with torch.cuda.device_of(expanded):  # Triton launches on the current device
        return forward(expanded, weight, bias, keeps=keeps)


@gate_operator.register_fake
def _(expanded: Tensor, weight: Tensor, bias: Tensor, keeps: bool) -> tuple[Tensor, Tensor]:
    batch, twice, height, width = expanded.shape
    shapes = [(batch, twice // 2, rows, width) for rows in (height, height if keeps else 0)]
    out, kept = (torch.empty_like(expanded.new_empty(shape), memory_format=torch.channels_last) for shape in shapes)
    return out, kept


@torch.library.custom_op("enlcn::gate_backward", mutates_args=())
def gate_backward_operator(gradient: Tensor, expanded: Tensor, kept: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """See `triton_gate.backward`."""
    with torch.cuda.device_of(expanded):
        return backward(gradient, expanded, kept, weight)


@gate_backward_operator.register_fake
def _(gradient: Tensor, expanded: Tensor, kept: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    back = torch.empty_like(expanded, memory_format=torch.channels_last)
    return back, expanded.new_empty(weight[0].numel() + 1, weight.shape[0], dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: tuple[Tensor, Tensor]) -> None:
    expanded, weight, bias, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.bias_dtype = bias.dtype
    ctx.save_for_backward(expanded, output[1], weight)


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    weight = ctx.saved_tensors[2]
    of_expanded, sums = gate_backward_operator(gradient, *ctx.saved_tensors)
    return of_expanded, sums[:-1].t().reshape(weight.shape).to(weight.dtype), sums[-1].to(ctx.bias_dtype), None


gate_operator.register_autograd(_differentiate, setup_context=_save)
