"""The convolution to few channels as one product, against the convolution itself, values and gradients."""

import pytest
import torch

from enlcn.ops.narrow_convolution import naive, narrow_conv3x3, suits

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def problem(batch, channels, outputs, height, width, dtype, memory_format):
    x = torch.randn(batch, channels, height, width, device=DEVICE).to(dtype).contiguous(memory_format=memory_format)
    weight = torch.randn(outputs, channels, 3, 3, device=DEVICE) * channels**-0.5
    return x.requires_grad_(), weight.requires_grad_()


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(2, 16, 3, 9, 7), (1, 8, 1, 1, 5), (1, 24, 4, 6, 1), (3, 32, 48, 8, 8)])
def test_equals_the_convolution(shape, dtype, memory_format):
    """Against float64 with the weights rounded as ours are: what is left is the summation in float32."""
    x, weight = problem(*shape, dtype, memory_format)
    out = narrow_conv3x3(x, weight)
    assert out.dtype == torch.float32
    wide_x, rounded = (t.detach().to(dtype).double().requires_grad_() for t in (x, weight))
    exact = naive(wide_x, rounded)
    assert (out - exact).norm() < 1e-5 * exact.norm()

    gradient = torch.randn_like(out).to(dtype).float()  # representable, so that rounding it changes nothing
    ours = torch.autograd.grad(out, (x, weight), gradient)
    theirs = torch.autograd.grad(exact, (wide_x, rounded), gradient.double())
    rounding = {torch.bfloat16: 4e-3, torch.float16: 5e-4}[dtype]
    assert ours[0].dtype == dtype
    assert (ours[0] - theirs[0]).norm() < rounding * theirs[0].norm()
    assert (ours[1] - theirs[1]).norm() < 1e-5 * theirs[1].norm()


def test_second_derivatives_are_the_convolutions():
    x, weight = problem(2, 16, 3, 9, 7, torch.bfloat16, torch.channels_last)
    seconds = []
    for function in (naive, narrow_conv3x3):
        gradients = torch.autograd.grad(function(x, weight).square().sum(), (x, weight), create_graph=True)
        seconds.append(torch.autograd.grad(sum(g.float().square().sum() for g in gradients), (x, weight)))
    for plain, ours in zip(*seconds, strict=True):
        assert plain.norm() > 0
        assert (ours - plain).norm() < 0.03 * plain.norm()


def test_only_where_16_bits_come_in():
    x, _ = problem(1, 8, 3, 4, 4, torch.bfloat16, torch.channels_last)
    assert suits(x) == (DEVICE == "cuda")
    assert not suits(x.float())
