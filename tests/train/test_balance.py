from dataclasses import replace

import torch

from enlcn import recipes
from enlcn.models.backbone import SRNetwork
from enlcn.models.blocks import ResidualBlock
from enlcn.train.balance import balance, balancing_factors

GROWN = replace(recipes.TINY, res_scale=0.1)


def lopsided(factor):
    """A network whose blocks' second convolutions are `factor` times as large as their first, some channels apart."""
    torch.manual_seed(0)
    network = SRNetwork(GROWN)
    for block in blocks(network):
        block.conv2.weight.data *= factor
        block.conv1.weight.data[3] = 0
        block.conv2.weight.data[:, 4] = 0
    return network


def blocks(network):
    return [module for module in network.modules() if isinstance(module, ResidualBlock)]


def test_the_function_stays_the_same_to_the_bit():
    network, lr = lopsided(100.0), torch.rand(1, 3, 9, 11)
    before = network(lr)
    weights = [block.conv1.weight.clone() for block in blocks(network)]
    balance(network)
    assert torch.equal(network(lr), before)
    assert not any(torch.equal(block.conv1.weight, old) for block, old in zip(blocks(network), weights, strict=True))


def test_both_sides_become_alike():
    for factor in (100.0, 0.003):
        network = lopsided(factor)
        balance(network)
        for block in blocks(network):
            into = block.conv1.weight.square().mean((1, 2, 3)).sqrt()
            out_of = block.conv2.weight.square().mean((0, 2, 3)).sqrt()
            used = (into > 0) & (out_of > 0)
            assert used.sum() == len(used) - 2
            # A factor may be off by the root of two, and counts on both sides.
            assert ((into / out_of)[used].log2().abs() <= 1.01).all()


def test_channels_without_input_or_effect_are_left_alone():
    block = blocks(lopsided(100.0))[0]
    factors = balancing_factors(block.conv1.weight, block.conv2.weight)
    assert factors[3] == factors[4] == 1
    assert torch.equal(factors.log2(), factors.log2().round())


def test_what_is_balanced_is_not_changed():
    torch.manual_seed(0)
    network = SRNetwork(GROWN)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    balance(network)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
