"""On a GPU: whole pictures by the network laid out for it, and what becomes of precision there."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from enlcn import recipes
from enlcn.models.backbone import SRNetwork
from enlcn.models.fast import FastNetwork
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def upscaled(engine, lr):
    scale = engine.scale
    out = torch.full((1, 3, lr.shape[2] * scale, lr.shape[3] * scale), torch.nan)

    def emit(tile, sr):
        out[..., scale * tile.top : scale * tile.bottom, scale * tile.left : scale * tile.right] = sr

    engine.upscale(*lr.shape[2:], lambda t: lr[..., t.top : t.bottom, t.left : t.right], emit)
    return out


def test_on_the_cpu_and_in_float32_it_is_the_network_itself():
    engine = Engine(SRNetwork(recipes.TINY), EngineOptions(device="cpu"))
    assert engine.whole_network("fp32") is engine.network
    assert engine.whole_network("bf16") is engine.network


@needs_gpu
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("mode", ["whole", "streaming"])
@pytest.mark.parametrize("change", [{}, {"upsampler": "stepwise"}, {"block": "gated"}])
def test_16_bits_are_close_to_float32(precision, mode, change):
    torch.manual_seed(0)
    network = SRNetwork(replace(recipes.TINY, **change))
    lr = torch.rand(1, 3, 61, 83)
    exact = upscaled(Engine(network, EngineOptions(device="cpu")), lr)
    engine = Engine(network, EngineOptions(device="cuda", precision=precision, mode=mode, tile=32))
    error = (upscaled(engine, lr) - exact).square().mean()
    assert -10 * np.log10(error.item()) > 45
    if mode == "whole":
        assert isinstance(engine.whole_network(precision), FastNetwork)
