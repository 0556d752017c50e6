from dataclasses import replace

import pytest
import torch

from enlcn import recipes
from enlcn.config import AttentionConfig
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.train.growth import grown

SMALL = replace(recipes.TINY, channels=8, num_blocks=3, attention_after=(0, 1, 3))


def network(config, seed):
    torch.manual_seed(seed)
    return SRNetwork(config).double()


def grow(source, config):
    target = network(config, seed=2)
    weights, new = grown(source.config, source.state_dict(), target)
    target.load_state_dict(weights)
    return target, new


@pytest.mark.parametrize(
    "change",
    [
        {"channels": 12},
        {"channels": 24, "upsampler": "stepwise"},
        {"channels": 24, "scale": 3, "upsampler": "stepwise"},
        {"channels": 24, "scale": 2, "upsampler": "stepwise"},
        {"num_blocks": 6, "attention_after": (0, 2, 4, 6)},
        {"block_width": 20},
        {"res_scale": 0.1},
        {"attention": replace(SMALL.attention, res_scale=0.5, reduction=2)},
        {
            "channels": 20,
            "num_blocks": 8,
            "attention_after": (0, 2, 4, 6, 8),
            "res_scale": 0.1,
            "upsampler": "stepwise",
        },
    ],
)
def test_the_larger_network_computes_what_the_smaller_did(change):
    source = network(replace(SMALL, scale=change.get("scale", 4)), seed=1)
    target, _ = grow(source, replace(SMALL, **change))
    lr = torch.rand(2, 3, 9, 7, dtype=torch.float64)
    assert torch.allclose(target(lr), source(lr), rtol=0, atol=1e-12)


def test_gated_networks_grow_deeper_but_not_wider():
    gated = replace(SMALL, block="gated")
    source = network(gated, seed=1)
    target, new = grow(source, replace(gated, num_blocks=5, attention_after=(0, 2, 5), res_scale=0.1))
    lr = torch.rand(2, 3, 9, 7, dtype=torch.float64)
    assert torch.allclose(target(lr), source(lr), rtol=0, atol=1e-12)
    parts = {"expand.weight", "offset", "spread.weight", "spread.bias", "project.weight", "project.bias"}
    assert {name.split(".", 4)[4] for name in new} == parts
    for change in ({"channels": 16}, {"block_width": 12}, {"block_kernel": 9}):
        with pytest.raises(UserError, match="gated blocks are not widened"):
            grow(source, replace(gated, **change))
    with pytest.raises(UserError, match="its blocks are gated, the network's residual"):
        grow(source, SMALL)


def test_another_number_of_features_means_another_f():
    source = network(SMALL, seed=1)
    more = replace(SMALL, attention=replace(SMALL.attention, num_features=2 * SMALL.attention.num_features))
    target, new = grow(source, more)
    assert new == [f"stages.{index}.attention.projection" for index, (has, _) in enumerate(SMALL.stages) if has]
    assert torch.equal(target.attentions[0].projection, network(more, seed=2).attentions[0].projection)
    assert torch.equal(target.attentions[0].query.weight, source.attentions[0].query.weight)


def test_a_residual_that_counts_for_nothing_takes_none():
    with pytest.raises(UserError, match=r"its blocks count by a res_scale of 1\.0, the network's not at all"):
        grow(network(SMALL, seed=1), replace(SMALL, res_scale=0.0))


@pytest.mark.parametrize("kind", ["nla", "nlsa", "cca"])
def test_rivals_grow_too(kind):
    rival = replace(SMALL, attention=AttentionConfig(kind=kind, amplification=None, bucket_size=16))
    source = network(rival, seed=1)
    target, _ = grow(source, replace(rival, channels=16))
    lr = torch.rand(2, 3, 9, 7, dtype=torch.float64)
    assert torch.allclose(target(lr), source(lr), rtol=0, atol=1e-7)  # hashed attention weighs in float32


def test_the_papers_network_has_room_for_the_light_one():
    light = recipes.network("enlcn-light-x4")
    with torch.device("meta"):
        source, target = SRNetwork(light), SRNetwork(recipes.ENLCN)
    weights, new = grown(light, source.state_dict(), target)
    assert {name: value.shape for name, value in weights.items()} == {
        name: value.shape for name, value in target.state_dict().items()
    }
    blocks = {name.rsplit(".", 2)[0] for name in new if ".blocks." in name}
    attentions = {name.rsplit(".", 2)[0] for name in new if name.endswith("value.weight")}
    assert len(blocks) == 32 - 19
    assert attentions == {"stages.1.attention", "stages.3.attention"}


def test_all_that_is_new_learns_within_three_steps():
    source = network(SMALL, seed=1)
    config = replace(SMALL, channels=12, num_blocks=5, attention_after=(0, 2, 3, 5), upsampler="stepwise")
    target, _ = grow(source, config)
    optimizer = torch.optim.SGD(target.parameters(), lr=1e-3)
    lr = torch.rand(2, 3, 8, 8, dtype=torch.float64)
    moved = {name: torch.zeros_like(weight, dtype=torch.bool) for name, weight in target.named_parameters()}
    for _ in range(4):
        optimizer.zero_grad()
        (target(lr) - 0.5).square().mean().backward()
        optimizer.step()
        for name, weight in target.named_parameters():
            moved[name] |= weight.grad != 0
    still = {name: (~flags).double().mean().item() for name, flags in moved.items() if not flags.all()}
    # ReLUs may be silent for a whole batch, and with them their row.
    assert all(share < 0.4 and "conv" in name for name, share in still.items()), still


def test_new_channels_are_not_heard_before_they_have_learnt():
    source = network(SMALL, seed=1)
    target, _ = grow(source, replace(SMALL, channels=12))
    lr = torch.rand(1, 3, 6, 6, dtype=torch.float64)
    before = target(lr)
    with torch.no_grad():
        target.head.weight[8:] += 1
    assert torch.allclose(target(lr), before, rtol=0, atol=1e-12)


def test_a_network_without_attention_grows_too():
    plain = replace(SMALL, attention=AttentionConfig(kind="none"), attention_after=())
    source = network(plain, seed=1)
    target, new = grow(source, replace(plain, channels=12, num_blocks=5))
    assert {name.rsplit(".", 2)[0] for name in new} == {"stages.0.blocks.3", "stages.0.blocks.4"}
    lr = torch.rand(1, 3, 6, 6, dtype=torch.float64)
    assert torch.allclose(target(lr), source(lr), rtol=0, atol=1e-12)
