"""The kernels as operators PyTorch knows (torch.library): autograd, torch.compile and CUDA graphs keep them whole."""

from typing import Any

import torch
from torch import Tensor

from enlcn.ops.depthwise.triton_depthwise import convolve, weight_gradient


@torch.library.custom_op("enlcn::depthwise", mutates_args=())
def depthwise_operator(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """See `depthwise`."""
    with torch.cuda.device_of(x):  # Triton launches on the current device
        return convolve(x, weight, bias)


@depthwise_operator.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.empty_like(x, memory_format=torch.channels_last)


@torch.library.custom_op("enlcn::depthwise_backward", mutates_args=())
def depthwise_backward_operator(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients with respect to x, weight and bias."""
    with torch.cuda.device_of(x):
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        # What a pixel gave to those around it comes back from them: the same convolution, turned round.
        back = convolve(gradient, weight.flip((2, 3)), None)
        bias = gradient.sum((0, 2, 3), dtype=torch.float32)
        return back.to(x.dtype), weight_gradient(x, gradient, weight.shape[-1]).to(weight.dtype), bias.to(weight.dtype)


@depthwise_backward_operator.register_fake
def _(gradient: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    back = torch.empty_like(x, memory_format=torch.channels_last)
    return back, weight.new_empty(weight.shape), weight.new_empty(weight.shape[0])


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    x, weight, bias = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    x, weight, bias = depthwise_backward_operator(gradient, *ctx.saved_tensors)
    return x, weight, bias if ctx.has_bias else None


depthwise_operator.register_autograd(_differentiate, setup_context=_save)
