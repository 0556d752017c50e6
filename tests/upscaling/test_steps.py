"""Progress of whole-image runs: every module counts, and counting changes nothing."""

import threading
from itertools import pairwise

import numpy as np
import pytest
import torch

from enlcn import recipes
from enlcn.data.image import Image
from enlcn.models.backbone import SRNetwork
from enlcn.models.fast import FastNetwork
from enlcn.upscaling import Engine, EngineOptions, upscale_image
from enlcn.upscaling.steps import WholeSteps, following_modules, named_modules
from enlcn.upscaling.whole import upscale_whole

MODULES = 3 + 4 + 1  # of recipes.TINY: attentions, blocks, the end of the body


@pytest.fixture
def network():
    torch.manual_seed(0)
    return SRNetwork(recipes.TINY).eval()


def told(network, lr):
    calls, rows = [], []
    upscale_whole(network, lr, lambda tile, sr: rows.append(sr), progress=lambda *call: calls.append(call))
    return calls, torch.cat(rows, dim=-2)


def test_every_module_is_a_step_and_the_result_is_the_same(network):
    lr = torch.rand(1, 3, 30, 40)
    calls, sr = told(network, lr)
    assert calls == [*((done, MODULES + 1) for done in range(MODULES + 1)), (MODULES + 1, MODULES + 1)]
    silent = []
    upscale_whole(network, lr, lambda tile, strip: silent.append(strip))
    assert torch.equal(torch.cat(silent, dim=-2), sr)
    assert not any(module._forward_hooks for module in network.modules())


def test_a_folded_network_tells_of_strips():
    network = FastNetwork(SRNetwork(recipes.TINY).eval(), torch.float32, graphs=False)
    calls, _ = told(network, torch.rand(1, 3, 300, 100))  # 163 rows a strip
    assert calls == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("strips", [1, 2, 7, 100])
def test_strips_end_where_the_steps_end(strips):
    calls = []
    steps = WholeSteps(20, strips, lambda *call: calls.append(call))
    for count in range(1, strips + 1):
        steps.strips_done(count)
    assert calls[-1] == (24, 24)
    assert all(20 <= done < 24 for done, _ in calls[:-1])
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


@pytest.mark.parametrize("self_ensemble", [False, True])
@pytest.mark.parametrize("transparent", [False, True])
def test_engines_never_count_backwards(network, self_ensemble, transparent):
    """With alpha there are two runs, in the self-ensemble eight of each, on their side too."""
    pixels = np.random.default_rng(0).integers(0, 256, (9, 14, 3), np.uint8)
    image = Image(pixels, pixels[..., 0] if transparent else None)
    options = EngineOptions(device="cpu", self_ensemble=self_ensemble)
    calls = []
    upscale_image(Engine(network, options), image, progress=lambda *call: calls.append(call))
    runs = (2 if transparent else 1) * (8 if self_ensemble else 1)
    assert {total for _, total in calls} == {runs * (MODULES + 1)}
    assert calls[0][0] == 0
    assert calls[-1][0] == calls[-1][1]
    assert all(before[0] <= after[0] <= before[0] + 1 for before, after in pairwise(calls))


def test_modules_run_by_another_thread_are_not_told_of(network):
    names = []
    other = threading.Thread(target=lambda: network(torch.rand(1, 3, 8, 8)))
    with following_modules(network, names.append):
        other.start()
        other.join()
        assert names == []
        network(torch.rand(1, 3, 8, 8))
    assert names == [name for name, _ in named_modules(network)]
    assert names[0] == "attention 1 of 3"
    assert names[-3:] == ["block 4 of 4", "attention 3 of 3", "body done"]
