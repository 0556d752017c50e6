"""The kernels as operators PyTorch knows (torch.library): autograd, torch.compile and CUDA graphs keep them whole."""

from typing import Any

import torch
from torch import Tensor

from enlcn.ops.enlca.launch import operand_dtype, with_one_position_stride
from enlcn.ops.enlca.triton_backward import backward
from enlcn.ops.enlca.triton_forward import forward
from enlcn.ops.precision import no_autocast


@torch.library.custom_op("enlcn::enlca", mutates_args=())
def enlca_operator(
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
    """See `triton_forward.forward`."""
    weights = (query_weight, query_bias, key_weight, key_bias, value_weight, value_bias, proj)
    with torch.cuda.device_of(x):  # Triton launches on the current device
        return forward(x, *weights, amplification, feature_eps, res_scale)


@enlca_operator.register_fake
def _(x: Tensor, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    proj = arguments[6]
    batch, channels, num_features = x.shape[0], x.shape[1], proj.shape[0]
    state = x.new_empty(batch, num_features * (channels + 1), dtype=torch.float32)
    values = x.new_empty(batch, num_features, channels, dtype=operand_dtype(x.dtype))
    return torch.empty_like(with_one_position_stride(x)), state, values


@torch.library.custom_op("enlcn::enlca_backward", mutates_args=())
def enlca_backward_operator(
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
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """See `triton_backward.backward`."""
    weights = (query_weight, query_bias, key_weight, key_bias, value_weight, value_bias, proj)
    with torch.cuda.device_of(x), no_autocast(x.device):
        return (*backward(gradient, x, *weights, state, values, amplification, feature_eps, res_scale),)


@enlca_backward_operator.register_fake
def _(gradient: Tensor, x: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
    weights = arguments[:6]
    return (torch.empty_like(with_one_position_stride(x)), *(w.new_empty(w.shape) for w in weights))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.amplification, ctx.feature_eps, ctx.res_scale = inputs
    _, state, values = output
    ctx.mark_non_differentiable(state, values)
    ctx.save_for_backward(*tensors, state, values)


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    numbers = (ctx.amplification, ctx.feature_eps, ctx.res_scale)
    gradients = enlca_backward_operator(gradient, *ctx.saved_tensors, *numbers)
    return (*gradients, None, None, None, None)


enlca_operator.register_autograd(_differentiate, setup_context=_save)
