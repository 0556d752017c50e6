"""Which input pixels change an output pixel: slopes agree with small changes, and convolutions end where they must."""

from dataclasses import replace

import pytest
import torch

from enlcn import recipes
from enlcn.models.backbone import SRNetwork
from enlcn.reproduce.receptive import convolution_radius, describe, input_influence

SIDE = 31
POINT = (15, 15)


def build(**changes):
    torch.manual_seed(0)
    return SRNetwork(replace(recipes.TINY, **changes)).double().eval()


@pytest.fixture(scope="module")
def lr():
    return torch.rand(1, 3, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("upsampler", ["direct", "stepwise"])
def test_convolutions_reach_as_far_as_counted(lr, upsampler):
    network = build(attention=recipes.EDSR.attention, attention_after=(), num_blocks=2, upsampler=upsampler)
    found = describe(input_influence(network, lr, POINT), POINT, network.config)
    radius = convolution_radius(network.config)
    assert found["beyond_convolutions"] == 0
    assert 0 < found["reached"] <= (2 * radius + 1) ** 2 / SIDE**2
    if upsampler == "direct":  # the mean over the pixel's outputs sees the corners of the last 3x3
        assert found["profile"][radius] > 0
    assert all(value == 0 for value in found["profile"][radius + 1 :])


def test_attention_reaches_everywhere(lr):
    network = build(num_blocks=2, attention_after=(0, 2))
    found = describe(input_influence(network, lr, POINT), POINT, network.config)
    assert found["reached"] == 1
    assert found["beyond_convolutions"] > 0
    assert found["radius_50"] <= found["radius_90"] <= found["radius_99"]


@pytest.mark.parametrize("pixel", [(15, 15), (17, 13), (1, 29)])
def test_slopes_are_those_of_small_changes(lr, pixel):
    network = build(num_blocks=2, attention_after=(0, 2))
    x, y = pixel
    step = 1e-5
    squares = torch.zeros((), dtype=torch.float64)
    with torch.no_grad():
        for colour in range(3):
            ends = []
            for sign in (1, -1):
                changed = lr.clone()
                changed[0, colour, y, x] += sign * step
                ends.append(network(changed)[0, :, 60:64, 60:64].mean((1, 2)))
            squares += ((ends[0] - ends[1]) / (2 * step)).square().sum()
    assert input_influence(network, lr, POINT)[y, x].item() == pytest.approx(squares.sqrt().item(), rel=1e-4)
