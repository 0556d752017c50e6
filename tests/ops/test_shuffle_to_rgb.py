"""Convolution, pixel shuffle and convolution in one, against the three one after another, values and gradients."""

import pytest
import torch

from enlcn.models.blocks import StepwiseUpsampler
from enlcn.ops.shuffle_to_rgb import folded, naive, places

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def problem(height, width, *, factor, outputs=3, channels=6, between=5, dtype=torch.float64):
    shapes = [
        (2, channels, height, width),
        (between * factor**2, channels, 3, 3),
        (between * factor**2,),
        (outputs, between, 3, 3),
        (outputs,),
    ]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("size", [(7, 6), (2, 3), (1, 4), (5, 1), (1, 1)])
def test_equals_the_three_steps(size, factor):
    """To the border, where the second convolution finds zeros and not what the first would give out there."""
    inputs = problem(*size, factor=factor)
    ours, theirs = folded(*inputs, factor), naive(*inputs, factor)
    assert ours.shape == (2, 3, factor * size[0], factor * size[1])
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    gradient = torch.randn_like(ours)
    for mine, other in zip(
        torch.autograd.grad(ours, inputs, gradient), torch.autograd.grad(theirs, inputs, gradient), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("outputs", [1, 4])
def test_any_number_of_outputs(outputs):
    inputs = problem(4, 5, factor=2, outputs=outputs)
    torch.testing.assert_close(folded(*inputs, 2), naive(*inputs, 2), rtol=1e-12, atol=1e-12)


def test_places_are_all_that_three_taps_reach():
    assert places(2) == [(0, -1), (0, 0), (1, 0), (1, 1)]
    assert places(3) == [(0, -1), (0, 0), (1, 0), (2, 0), (2, 1)]


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_upsampler_gives_float32_pixels_under_autocast(scale):
    """Rounded to 16 bits are features and, on GPUs, the folded weights; pixels are not."""
    upsampler = StepwiseUpsampler(16, scale=scale).to(DEVICE)
    x = torch.randn(2, 16, 12, 10, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        pixels = upsampler(x.bfloat16())
    exact = upsampler.double()(x.bfloat16().double())
    assert pixels.dtype == torch.float32
    assert (pixels - exact).norm() < 0.01 * exact.norm()
    assert (pixels.bfloat16() != pixels).any()


def test_upsampler_step_by_step_is_the_same():
    upsampler = StepwiseUpsampler(8, scale=4).double()
    x = torch.randn(1, 8, 5, 6, dtype=torch.float64)
    at_once = upsampler(x)
    upsampler.folds = False
    torch.testing.assert_close(upsampler(x), at_once, rtol=1e-12, atol=1e-12)
