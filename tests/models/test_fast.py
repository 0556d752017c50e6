from dataclasses import replace

import pytest
import torch

from enlcn import recipes
from enlcn.models.backbone import SRNetwork
from enlcn.models.fast import FastNetwork


@pytest.mark.parametrize("name", ["enlcn-tiny", "edsr", "nlan", "nlsn", "ccn"])
@pytest.mark.parametrize("upsampler", ["stepwise", "direct"])
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_is_the_network(name, upsampler, scale):
    config = recipes.NETWORKS[name]
    places = (0, 1, 2) if config.attention_after else ()
    network = SRNetwork(
        replace(config, channels=16, num_blocks=2, attention_after=places, upsampler=upsampler, scale=scale)
    ).double()
    lr = torch.rand(2, 3, 9, 11, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(FastNetwork(network, torch.float64)(lr), network(lr), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("block", ["residual", "gated"])
@pytest.mark.parametrize("res_scale", [1.0, 0.1])
def test_blocks_may_be_of_another_kind_and_wider_inside(block, res_scale):
    network = SRNetwork(replace(recipes.TINY, block=block, block_width=40, res_scale=res_scale)).double()
    lr = torch.rand(1, 3, 9, 11, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(FastNetwork(network, torch.float64)(lr), network(lr), rtol=1e-6, atol=1e-7)


def test_features_and_reconstruction_are_its_halves():
    network = SRNetwork(recipes.TINY).double()
    fast = FastNetwork(network, torch.float64)
    lr = torch.rand(1, 3, 9, 11, dtype=torch.float64)
    with torch.no_grad():
        assert torch.allclose(fast.features(lr), network.features(lr), rtol=1e-6, atol=1e-7)
    assert torch.equal(fast.reconstruct(fast.features(lr)), fast(lr))


def test_bfloat16_is_close_and_comes_back_in_float32():
    network = SRNetwork(recipes.TINY)
    lr = torch.rand(1, 3, 24, 20)
    sr = FastNetwork(network)(lr)
    assert sr.dtype == torch.float32
    with torch.no_grad():
        assert (sr - network(lr)).square().mean() < 1e-5  # 50 dB


def test_is_a_snapshot_and_leaves_the_network_alone():
    network = SRNetwork(recipes.TINY)
    state = {key: value.clone() for key, value in network.state_dict().items()}
    fast = FastNetwork(network, torch.float32)
    lr = torch.rand(1, 3, 8, 8)
    before = fast(lr)
    assert all(torch.equal(value, state[key]) for key, value in network.state_dict().items())
    assert not before.requires_grad
    network.redraw()
    assert torch.equal(fast(lr), before)


def test_takes_images_of_any_float_type_and_layout():
    network = SRNetwork(recipes.TINY)
    fast = FastNetwork(network, torch.float32)
    lr = torch.rand(1, 3, 8, 9)
    assert torch.equal(fast(lr.contiguous(memory_format=torch.channels_last)), fast(lr))
    assert fast(lr.bfloat16()).dtype == torch.float32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs need a GPU")
def test_graphs_are_kept_per_shape_and_the_oldest_goes():
    network = SRNetwork(recipes.TINY).cuda()
    fast, plain = FastNetwork(network), FastNetwork(network, graphs=False)
    for width in (8, 9, 10, 11, 12, 8):
        lr = torch.rand(1, 3, 8, width, device="cuda")
        assert torch.allclose(fast(lr), plain(lr), atol=1e-2)
    assert [key[3] for key in fast._graphs] == [10, 11, 12, 8]
