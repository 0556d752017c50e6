from dataclasses import replace

import pytest
import torch

from enlcn import recipes
from enlcn.losses import total_loss
from enlcn.models.backbone import SRNetwork
from enlcn.train.config import EngineConfig
from enlcn.train.distributed import Ranks
from enlcn.train.rounded import RoundedNetwork
from enlcn.train.step import TrainStep
from tests.train.test_step import CPU, PLAIN, source

STEPWISE = replace(recipes.TINY, upsampler="stepwise")
SCALED = replace(STEPWISE, res_scale=0.1)


def gradients(network, lr, hr):
    with torch.autocast("cpu", torch.bfloat16):
        sr, pairs = network.forward_with_pairs(lr)
        loss, _ = total_loss(sr.float(), hr, pairs)
    loss.backward()
    return loss


def both(model):
    """A network's loss and gradients under autocast, and by its rounded counterpart."""
    torch.manual_seed(0)
    network = SRNetwork(model).to(memory_format=torch.channels_last)
    lr, hr = torch.rand(2, 3, 9, 10), torch.rand(2, 3, 9 * model.scale, 10 * model.scale)
    plain = gradients(network, lr, hr)
    expected = {name: weight.grad for name, weight in network.named_parameters()}
    network.zero_grad()
    rounded = RoundedNetwork(network)
    rounded.round()
    loss = gradients(rounded.network, lr, hr)
    rounded.collect_gradients()
    return plain, expected, loss, {name: weight.grad for name, weight in network.named_parameters()}


@pytest.mark.parametrize(
    "model", [recipes.TINY, STEPWISE, replace(STEPWISE, scale=2), replace(recipes.TINY, block="gated")]
)
def test_values_and_gradients_are_autocasts_to_the_bit(model):
    plain, expected, loss, found = both(model)
    assert torch.equal(loss, plain)
    assert all(torch.equal(found[name], gradient) for name, gradient in expected.items())


@pytest.mark.parametrize("block", ["residual", "gated"])
def test_a_residuals_factor_goes_into_weights(block):
    """Without rounding, the same function and the same gradients."""
    torch.manual_seed(0)
    network = SRNetwork(replace(SCALED, block=block)).double()
    rounded = RoundedNetwork(network, torch.float64)
    lr = torch.rand(1, 3, 7, 8, dtype=torch.float64)
    sr = network(lr)
    sr.square().mean().backward()
    expected = [weight.grad for weight in network.parameters()]
    network.zero_grad()
    rounded.round()
    assert torch.allclose(rounded.network(lr), sr, atol=1e-12)
    rounded.network(lr).square().mean().backward()
    rounded.collect_gradients()
    for weight, gradient in zip(network.parameters(), expected, strict=True):
        assert torch.allclose(weight.grad, gradient, rtol=1e-9, atol=1e-12)


def test_all_that_is_not_rounded_is_shared():
    network = SRNetwork(SCALED)
    rounded = RoundedNetwork(network).network
    own = {name for name, weight in rounded.named_parameters() if weight is not network.get_parameter(name)}
    assert own == {
        name
        for name, _ in network.named_parameters()
        if (".conv" in name and "conv1.bias" not in name) or name in ("body_end.weight", "upsampler.0.weight")
    }
    assert all(buffer is network.get_buffer(name) for name, buffer in rounded.named_buffers())
    network.redraw()
    assert torch.equal(rounded.attentions[0].projection, network.attentions[0].projection)
    assert {block.res_scale for stage in network.stages for block in stage.blocks} == {0.1}


def test_steps_in_16_bits_equal_autocast_and_adam():
    """The same steps written plainly, to the bit: nothing of the rounded weights lags behind."""
    config = replace(
        PLAIN,
        model=replace(PLAIN.model, res_scale=1.0),
        engine=EngineConfig(precision="bf16"),
        cadence=replace(PLAIN.cadence, redraw=0),
    )
    torch.manual_seed(0)
    state = TrainStep(SRNetwork(config.model), config, source(), Ranks(0, 1, CPU))
    torch.manual_seed(0)
    network = SRNetwork(config.model).to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(network.parameters(), lr=torch.tensor(1e-3), betas=(0.9, 0.99), fused=True)
    for step in range(3):
        lr, hr = source().draw(torch.tensor(step))
        adam.zero_grad()
        gradients(network, lr, hr)
        adam.step()
        state.advance(1e-3, with_contrast=True)
    for ours, theirs in zip(state.parameters, network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
