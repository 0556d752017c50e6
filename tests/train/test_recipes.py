from dataclasses import replace

import pytest
import torch

from enlcn import recipes
from enlcn.data.patches import DevicePatches
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.train.config import TrainConfig
from enlcn.train.distributed import Ranks
from enlcn.train.loop import sampling_of
from enlcn.train.recipes import NO_CONTRAST, RECIPES, describe, recipe
from enlcn.train.schedule import contrast_is_on, learning_rate
from enlcn.train.step import TrainStep
from tests.data.test_patches import make_set

CPU = torch.device("cpu")


def test_paper_is_the_papers():
    crops = {2: 46, 3: 36, 4: 28}
    for scale, crop in crops.items():
        run = recipe(f"paper-x{scale}")
        assert run.model == recipes.network(f"enlcn-x{scale}")
        assert (run.data.crop, run.data.batch_size, run.data.augment) == (crop, 16, True)
        assert (run.optimizer.beta1, run.optimizer.beta2) == (0.9, 0.99)
        assert run.total_steps == 1_000_000
        assert (run.cadence.redraw, run.cadence.redraw_until) == (1000, 1.0)
        assert [learning_rate(run.schedule, e * 1000, e * 1000, run.total_steps) for e in (0, 199, 200, 999)] == [
            1e-4,
            1e-4,
            5e-5,
            6.25e-6,
        ]
        assert not contrast_is_on(run, 149_999)
        assert contrast_is_on(run, 150_000)


def test_every_ablation_row_has_a_recipe():
    models = [RECIPES[name].model for name in RECIPES if name.startswith("ablation-")]
    for rows in recipes.ABLATIONS.values():
        for model in rows.values():
            assert model in models
    with_contrast = [name for name in RECIPES if "components" in name and RECIPES[name].loss.contrastive_weight]
    assert with_contrast == ["ablation-components-enla-cl", "ablation-components-enla-k-cl"]


def test_all_that_was_promised_is_there():
    small = ("enlcn-small", "edsr-small", "enlcn-fast", "enlcn-light", "edsr-light", "enlcn-gated", "edsr-gated")
    for scale in (2, 3, 4):
        assert recipe(f"cpu-enlcn-fast-x{scale}").model == recipes.network(f"enlcn-fast-x{scale}")
        for name in ("enlcn", *small):
            run = recipe(f"modern-{name}-x{scale}")
            assert run.model == recipes.network(f"{name}-x{scale}")
            assert run.schedule.kind == "cosine"
            assert run.schedule.warmup_steps > 0
            assert run.optimizer.ema_decay
            assert run.engine.channels_last
            assert run.cadence.redraw_until == 0.5
        for name in ("enlcn-light", "edsr-light", "enlcn-gated", "edsr-gated"):
            run = recipe(f"polish-{name}-x{scale}")
            assert (run.loss.pixel, run.cadence.redraw) == ("l2", 0)
            assert (run.loss.contrastive_weight > 0) == name.startswith("enlcn")
        for name in ("modern", "cpu"):
            run = recipe(f"{name}-enlcn-photo-x{scale}")
            assert run.model == recipes.network(f"enlcn-light-x{scale}")
            assert (run.data.noise, run.data.jpeg_quality, run.cadence.redraw) == (10.0, 30, 0)
            assert "noise up to 10, JPEG from quality 30" in describe(run)
        # As when they were first published: runs of them go on.
        assert recipe(f"modern-edsr-small-x{scale}").loss == NO_CONTRAST
    with pytest.raises(
        UserError, match=r"unknown recipe 'modern-enlcn-smal-x4'; did you mean modern-enlcn-small-x4 or"
    ):
        recipe("modern-enlcn-smal-x4")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_takes_a_step(name):
    """At 8 channels and small crops; everything else as it is."""
    run: TrainConfig = RECIPES[name]
    assert f"x{run.model.scale}" in describe(run)
    run = replace(
        run,
        model=replace(run.model, channels=8),
        data=replace(run.data, crop=9, batch_size=2),
        loss=replace(run.loss, contrastive_start=0),
    )
    network = SRNetwork(run.model)
    before = [p.detach().clone() for p in network.parameters()]
    ranks = Ranks(0, 1, CPU)
    patches = DevicePatches(make_set(run.model.scale), sampling_of(run, ranks), CPU)
    state = TrainStep(network, run, patches, ranks)
    state.advance(1e-3, contrast_is_on(run, 0))
    readings = state.read()
    assert readings.skipped == 0
    assert readings.loss > 0
    assert (readings.contrastive > 0) == (run.loss.contrastive_weight > 0 and run.model.num_attentions > 0)
    changed = [not torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True)]
    assert sum(changed) > len(changed) / 2
