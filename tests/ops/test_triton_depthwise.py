"""The depthwise convolution's kernels against PyTorch, in Triton's interpreter or, where there is one, on the GPU."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("test_triton_interpreter.py runs these in a process of their own", allow_module_level=True)

from enlcn.ops.depthwise import can_run, depthwise, naive
from enlcn.ops.depthwise.operators import depthwise_backward_operator, depthwise_operator

DEVICE = "cpu" if INTERPRETED else "cuda"
# bfloat16 numbers are rounded once, at the end; the interpreter cuts where a GPU rounds.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
SHAPES = [(2, 16, 6, 20, 7), (1, 70, 5, 3, 5), (1, 3, 1, 33, 3), (2, 65, 3, 5, 9), (1, 8, 4, 4, 1)]


def image(*shape, dtype=torch.float32):
    values = torch.randn(shape, device=DEVICE).to(dtype)
    return values.contiguous(memory_format=torch.channels_last)


def off(found, expected):
    return ((found.double() - expected).norm() / expected.norm().clamp_min(1e-9)).item()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("batch", "channels", "height", "width", "side"), SHAPES)
@pytest.mark.parametrize("has_bias", [True, False])
def test_values_and_gradients_equal_pytorchs(batch, channels, height, width, side, has_bias, dtype):
    torch.manual_seed(0)
    x = image(batch, channels, height, width, dtype=dtype).requires_grad_()
    weight = torch.randn(channels, 1, side, side, device=DEVICE, requires_grad=True)
    bias = torch.randn(channels, device=DEVICE, requires_grad=True) if has_bias else None
    leaves = [leaf for leaf in (x, weight, bias) if leaf is not None]
    assert can_run(x, weight)
    out = depthwise(x, weight, bias, backend="triton")
    gradient = image(batch, channels, height, width, dtype=dtype)
    found = torch.autograd.grad(out, leaves, gradient)

    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = naive(exact[0], exact[1], exact[2] if has_bias else None)
    assert out.dtype == dtype
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert off(out, expected) < TOLERANCE[dtype]
    for leaf, ours, theirs in zip(leaves, found, torch.autograd.grad(expected, exact, gradient.double()), strict=True):
        assert ours.dtype == leaf.dtype
        assert off(ours, theirs) < TOLERANCE[dtype]


def test_some_channels_of_a_larger_tensor_and_other_memory_orders_are_taken():
    wide, weight = image(2, 24, 6, 11), torch.randn(12, 1, 5, 5, device=DEVICE)
    for x in (*wide.chunk(2, dim=1), wide[:, ::2], wide[:, :12].contiguous(), wide[:, :12, 1:], wide[:, :12, :, ::2]):
        gradients = []
        for backend in ("triton", "naive"):
            leaf = x.detach().requires_grad_()
            out = depthwise(leaf, weight, None, backend=backend)
            gradients += [(out, *torch.autograd.grad(out.square().sum(), [leaf]))]
        for ours, theirs in zip(*gradients, strict=True):
            assert off(ours, theirs.double()) < 1e-5


def test_nothing_beyond_the_edges_is_read():
    """What lies around the image in memory is NaN."""
    room = torch.full((3, 10, 7, 5), float("nan"), device=DEVICE).to(memory_format=torch.channels_last)
    room[1] = torch.randn(10, 7, 5, device=DEVICE)
    out = depthwise(room[1:2], torch.randn(10, 1, 7, 7, device=DEVICE), None, backend="triton")
    assert out.isfinite().all()


def test_compilers_are_told_the_right_shapes_and_strides():
    wide, weight = image(2, 24, 6, 11), torch.randn(12, 1, 5, 5, device=DEVICE, requires_grad=True)
    for x in (wide.chunk(2, dim=1)[1], wide[:, :12].contiguous()):
        for bias in (torch.randn(12, device=DEVICE, requires_grad=True), None):
            torch.library.opcheck(depthwise_operator, (x.detach().requires_grad_(), weight, bias))
        gradient = image(2, 12, 6, 11)
        torch.library.opcheck(depthwise_backward_operator, (gradient, x, weight.detach()))
