import shutil
from dataclasses import replace

import pytest
import torch

import enlcn
from enlcn import authors_format, recipes
from enlcn.config import AttentionConfig, ModelConfig, describe_body
from enlcn.cost import network_flops
from enlcn.errors import UserError
from enlcn.export.infer import infer_config
from enlcn.losses import total_loss
from enlcn.models.backbone import SRNetwork
from enlcn.models.gated_block import GatedBlock, from_planes, to_planes
from enlcn.plain_config import from_plain, to_plain


def on_meta(config):
    with torch.device("meta"):
        return SRNetwork(config)


def count(config):
    return sum(p.numel() for p in on_meta(config).parameters())


def test_paper_size_has_43_58_million_parameters():
    assert round(count(recipes.ENLCN) / 1e6, 2) == 43.58
    assert round(count(recipes.EDSR) / 1e6, 2) == 43.09
    assert round(count(recipes.NETWORKS["nlsn"]) / 1e6, 2) == 44.16


@pytest.mark.parametrize("scale", [2, 3, 4])
@pytest.mark.parametrize("upsampler", ["stepwise", "direct"])
def test_scales(scale, upsampler):
    network = SRNetwork(replace(recipes.TINY, scale=scale, upsampler=upsampler))
    assert network(torch.rand(2, 3, 9, 14)).shape == (2, 3, 9 * scale, 14 * scale)


def test_blocks_may_be_wider_inside():
    config = replace(recipes.TINY, block_width=40)
    network = SRNetwork(config)
    block = network.stages[0].blocks[0]
    assert (block.conv1.weight.shape, block.conv2.weight.shape) == ((40, 16, 3, 3), (16, 40, 3, 3))
    assert network(torch.rand(1, 3, 9, 14)).shape == (1, 3, 36, 56)
    extra = (40 - 16) * (2 * 9 * 16 + 1)  # a block's further weights, and the first bias
    assert count(config) == count(recipes.TINY) + config.num_blocks * extra
    assert describe_body(config) == "4 residual blocks of 16 channels, 40 inside"
    assert infer_config(network.state_dict()) == config
    with pytest.raises(UserError, match="no place for gated blocks, nor for blocks of another width inside"):
        authors_format.from_ours(network.state_dict(), replace(config, upsampler="stepwise"))
    with pytest.raises(UserError, match="block_width must be positive"):
        replace(config, block_width=0)


@pytest.mark.parametrize("width", [None, 24])
def test_blocks_may_be_gated(width):
    config = replace(recipes.TINY, block="gated", block_width=width, block_kernel=5)
    network = SRNetwork(config)
    inner = width or 16
    each = 2 * inner * 16 + inner + inner * (25 + 1) + 16 * (inner + 1)
    rest = count(recipes.TINY) - 4 * 2 * 16 * (9 * 16 + 1)
    assert count(config) == rest + 4 * each
    assert describe_body(config) == f"4 gated 5x5 blocks of 16 channels{', 24 inside' if width else ''}"
    assert infer_config(network.state_dict()) == config
    with pytest.raises(UserError, match="no place for gated blocks"):
        authors_format.from_ours(network.state_dict(), replace(config, upsampler="stepwise"))


def test_a_gated_block_is_its_equation():
    torch.manual_seed(0)
    block = GatedBlock(6, res_scale=0.3, width=10, kernel=5).double()
    x = torch.randn(2, 6, 7, 9, dtype=torch.float64)
    mean_square = x.square().mean(1, keepdim=True)
    both = torch.einsum("jc,bchw->bjhw", block.expand.weight[..., 0, 0], x / (mean_square + 1e-4).sqrt())
    said, heard = both.split(10, dim=1)
    around = torch.nn.functional.unfold(heard, 5, padding=2).view(2, 10, 25, 7, 9)
    spread = torch.einsum("jk,bjkhw->bjhw", block.spread.weight.view(10, 25), around) + block.spread.bias.view(-1, 1, 1)
    branch = torch.einsum(
        "cj,bjhw->bchw", block.project.weight[..., 0, 0], (said + block.offset.view(-1, 1, 1)) * spread
    )
    expected = x + 0.3 * (branch + block.project.bias.view(-1, 1, 1))
    assert torch.allclose(block(x), expected, rtol=1e-12)


def test_1x1_convolutions_are_matrix_products_to_planes_and_back():
    into, out_of = torch.nn.Conv2d(6, 10, 1, bias=False), torch.nn.Conv2d(10, 6, 1)
    x = torch.randn(2, 6, 7, 9).contiguous(memory_format=torch.channels_last)
    planes = to_planes(into.weight, x)
    assert planes.transpose(0, 1).is_contiguous()
    assert torch.allclose(planes, into(x), atol=1e-6)
    back = from_planes(out_of, planes)
    assert back.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(back, out_of(planes), atol=1e-6)


def test_light_networks_have_at_most_a_million_and_a_half_parameters():
    for name in ("enlcn-light", "edsr-light", "enlcn-gated", "edsr-gated"):
        assert all(count(recipes.network(f"{name}-x{scale}")) <= 1_500_000 for scale in (2, 3, 4))


def test_the_fast_network_takes_a_fifth_of_the_light_ones_operations():
    for scale in (2, 3, 4):
        fast, light = (
            network_flops(recipes.network(f"{name}-x{scale}"), 64, 64) for name in ("enlcn-fast", "enlcn-light")
        )
        assert fast < light / 5


@pytest.mark.parametrize("name", recipes.NETWORKS)
def test_every_network_builds_and_takes_a_training_step_in_miniature(name):
    config = recipes.NETWORKS[name]
    small = replace(
        config, channels=16, num_blocks=4, attention_after=tuple(p for p in (0, 2, 4) if config.attention_after)
    )
    network = SRNetwork(small)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    lr, hr = torch.rand(2, 3, 10, 10), torch.rand(2, 3, 40, 40)
    losses = []
    for _ in range(4):
        sr, pairs = network.forward_with_pairs(lr)
        assert len(pairs) == small.num_attentions
        loss, _ = total_loss(sr, hr, pairs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("table", recipes.ABLATIONS)
def test_every_ablation_row_builds(table):
    for config in recipes.ABLATIONS[table].values():
        assert on_meta(config)(torch.empty(1, 3, 28, 28, device="meta")).shape == (1, 3, 112, 112)


def test_forward_returns_one_type_in_training_and_evaluation():
    network = SRNetwork(recipes.TINY)
    lr = torch.rand(1, 3, 8, 8)
    assert isinstance(network.train()(lr), torch.Tensor)
    assert torch.equal(network.train()(lr), network.eval()(lr))


def test_attention_places():
    stages = SRNetwork(replace(recipes.TINY, attention_after=(1, 4))).stages
    assert [(s.attention is not None, len(s.blocks)) for s in stages] == [(False, 1), (True, 3), (True, 0)]
    stages = SRNetwork(replace(recipes.TINY, attention_after=(0, 2, 4))).stages
    assert [(s.attention is not None, len(s.blocks)) for s in stages] == [(True, 2), (True, 2), (True, 0)]


def test_attention_reaches_every_pixel_and_convolutions_do_not():
    lr = torch.rand(1, 3, 40, 40)
    changed = lr.clone()
    changed[..., 0, 0] = 1 - changed[..., 0, 0]
    far = (..., slice(-4, None), slice(-4, None))
    for name, reaches in (("enlcn-tiny", True), ("edsr", False)):
        config = replace(recipes.NETWORKS[name], channels=16, num_blocks=4, attention_after=(2,) if reaches else ())
        network = SRNetwork(config).double()
        difference = network(changed.double())[far] - network(lr.double())[far]
        assert (difference.abs().max() > 0) == reaches


def test_redraw_reaches_every_module():
    network = SRNetwork(recipes.TINY)
    before = [a.projection.clone() for a in network.attentions]
    network.redraw(torch.Generator().manual_seed(1))
    assert all(not torch.equal(a.projection, b) for a, b in zip(network.attentions, before, strict=True))


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
@pytest.mark.parametrize("attention", ["enlca", "nla", "nlsa", "cca"])
def test_compiles_without_graph_breaks(attention):
    network = SRNetwork(
        replace(recipes.TINY, num_blocks=1, attention_after=(0,), attention=AttentionConfig(kind=attention))
    ).eval()
    lr = torch.rand(1, 3, 13, 17)
    compiled = torch.compile(network, fullgraph=True)
    with torch.no_grad():
        assert torch.allclose(compiled(lr), network(lr), atol=1e-4)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
def test_training_loss_compiles_without_graph_breaks():
    network = SRNetwork(replace(recipes.TINY, num_blocks=1, attention_after=(0,)))
    lr, hr = torch.rand(1, 3, 9, 9), torch.rand(1, 3, 36, 36)

    def step():
        sr, pairs = network.forward_with_pairs(lr)
        return total_loss(sr, hr, pairs, contrastive_weight=1.0)[0]

    results = []
    for function in (step, torch.compile(step, fullgraph=True)):
        network.zero_grad()
        loss = function()
        loss.backward()
        results.append((loss.detach(), network.attentions[0].query.weight.grad.clone()))
    assert torch.allclose(results[0][0], results[1][0], rtol=1e-4)
    assert torch.allclose(results[0][1], results[1][1], rtol=1e-2, atol=1e-5)


def test_config_round_trips_through_plain_data():
    for config in recipes.NETWORKS.values():
        assert from_plain(ModelConfig, to_plain(config)) == config


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ModelConfig(scale=5), "scale is 5; choose from 2, 3, 4"),
        (lambda: AttentionConfig(kind="swin"), "choose from none, enlca, nla, nlsa, cca"),
        (lambda: ModelConfig(attention_after=(0, 40)), "must ascend within 0..32"),
        (lambda: ModelConfig(channels=250), "multiple of the reduction"),
        (lambda: from_plain(ModelConfig, {"width": 3}), "unknown setting 'width'"),
        (lambda: from_plain(ModelConfig, {"attention": {"heads": 3}}), "unknown setting 'attention.heads'"),
        (lambda: from_plain(ModelConfig, {"channels": "64"}), "channels is '64'; expected a whole number"),
        (lambda: from_plain(ModelConfig, {"channels": 1e9}), "channels is 1000000000.0; expected a whole number"),
        (lambda: from_plain(ModelConfig, {"num_blocks": True}), "num_blocks is True; expected a whole number"),
        (lambda: from_plain(ModelConfig, {"res_scale": float("nan")}), "res_scale is nan; expected a number"),
        (lambda: from_plain(ModelConfig, {"rgb_mean": 0.4}), "rgb_mean is 0.4; expected several of a number"),
        (lambda: from_plain(ModelConfig, {"rgb_mean": ["a", 0, 1]}), "expected several of a number"),
        (lambda: from_plain(ModelConfig, {"attention": None}), "attention is None; expected names and values"),
        (lambda: from_plain(ModelConfig, {"attention": {"kind": 1}}), "attention.kind is 1; expected a text"),
        (lambda: from_plain(ModelConfig, [1, 2]), r"the config is \[1, 2\]; expected names and values"),
        (lambda: enlcn.ENLCN(4, foo=1), "unknown setting 'foo'; choose from scale, channels, num_blocks"),
        (lambda: enlcn.EDSR(2, width=64), "unknown setting 'width'"),
        (lambda: recipes.network("swinir-x4"), "unknown network 'swinir-x4'; choose from enlcn"),
        (lambda: recipes.network("enlcn-x5"), "unknown network 'enlcn-x5'"),
    ],
)
def test_bad_configs_say_what_is_wrong(build, message):
    with pytest.raises(UserError, match=message):
        build()


def test_public_factories():
    assert enlcn.ENLCN(scale=2, channels=16, num_blocks=8, attention_after=(0, 8)).config.scale == 2
    assert not enlcn.EDSR(channels=16, num_blocks=1).attentions
    assert enlcn.ENLCA(channels=16)(torch.rand(1, 16, 4, 4)).shape == (1, 16, 4, 4)
