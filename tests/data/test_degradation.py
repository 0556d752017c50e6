"""LR that is not clean: what is drawn, and that it depends on nothing but seed and sample."""

from dataclasses import replace

import pytest
import torch

from enlcn.data.batch import BatchConfig
from enlcn.data.crops import Sampling
from enlcn.data.degradation import Degradation
from enlcn.data.jpeg_loss import lose
from enlcn.data.patches import DevicePatches, HostPatches
from enlcn.errors import UserError
from tests.data.test_patches import make_set

CPU = torch.device("cpu")
BOTH = BatchConfig(noise=10.0, jpeg_quality=30)


def grey(count, side=12):
    return torch.full((count, 3, side, side), 128, dtype=torch.uint8)


def photo_like(count, side=24):
    """Smooth, with an edge: what JPEG changes but does not destroy."""
    ramp = torch.linspace(40, 200, side)
    image = ramp[:, None] * 0.5 + ramp[None, :] * 0.5 + 30 * (ramp[None, :] > 120)
    return image.to(torch.uint8).expand(count, 3, side, side).contiguous()


def test_clean_by_default():
    assert Degradation.of(BatchConfig(), 0, CPU) is None


def test_noise_has_the_deviations_that_were_asked_for():
    degrade = Degradation.of(BatchConfig(noise=20.0), 0, CPU)
    noise = degrade(grey(4000), torch.arange(4000)).double() - 128
    deviations = noise.flatten(1).std(1)
    # A deviation under 1/12 or so is lost in rounding; half of the samples have none at all.
    assert (deviations == 0).double().mean().item() == pytest.approx(0.5, abs=0.03)
    noisy = deviations[deviations > 0]
    assert noisy.max() < 20 * 1.15
    assert noisy.mean().item() == pytest.approx(10, abs=0.5)
    strong = noise[deviations > 15].flatten()
    strong = strong / strong.std()
    assert abs(strong.mean()) < 0.01
    assert (strong**3).mean().abs() < 0.05
    assert (strong**4).mean().item() == pytest.approx(3, abs=0.2), "normal"


def test_jpeg_has_the_qualities_that_were_asked_for():
    degrade = Degradation.of(BatchConfig(jpeg_quality=30), 0, CPU)
    lr = photo_like(600)
    out = degrade(lr, torch.arange(600))
    loss = (out.double() - lr).square().mean((1, 2, 3)).sqrt()
    assert (loss == 0).double().mean().item() == pytest.approx(0.25, abs=0.06)

    def worst(quality):
        return (
            lose(lr[:1], torch.tensor([quality]), torch.tensor([True]), degrade.constants).double() - lr[:1]
        ).square()

    assert loss.max() < 2 * worst(30).mean().sqrt()
    assert loss.max() > worst(60).mean().sqrt(), "strong compression occurs"


def test_blocks_begin_anywhere():
    """A step from pixel to pixel that only block borders have lies at each column as often."""
    degrade = Degradation.of(BatchConfig(jpeg_quality=1), 1, CPU)
    ramp = torch.linspace(0, 255, 48).to(torch.uint8).expand(512, 3, 48, 48).contiguous()
    out = degrade(ramp, torch.arange(512)).double()[:, 0, 24]
    jumps = (out.diff(dim=1) > 12).double().sum(0)[8:40]
    by_place = jumps.view(-1, 8).sum(0)
    assert by_place.min() > 0.4 * by_place.mean()


@pytest.mark.parametrize("config", [BOTH, replace(BOTH, noise=0.0), replace(BOTH, jpeg_quality=None)])
def test_a_sample_depends_on_its_number_alone(config):
    degrade = Degradation.of(config, 3, CPU)
    lr = photo_like(8)
    together = degrade(lr, torch.arange(40, 48))
    apart = torch.cat([degrade(lr[:3], torch.arange(40, 43)), degrade(lr[3:], torch.arange(43, 48))])
    assert torch.equal(together, apart)
    assert not torch.equal(together, degrade(lr, torch.arange(48, 56)))
    assert not torch.equal(together, Degradation.of(config, 4, CPU)(lr, torch.arange(40, 48)))


def test_it_compiles_as_a_whole():
    degrade = Degradation.of(BOTH, 3, CPU)
    lr = photo_like(4)
    compiled = torch.compile(lambda step: degrade(lr, torch.arange(4) + 4 * step), fullgraph=True, dynamic=False)
    step = torch.tensor(7)
    assert torch.equal(compiled(step), degrade(lr, torch.arange(28, 32)))


@pytest.mark.parametrize("more", [{}, {"any_offset": True}, {"candidates": 3}])
def test_batches_are_degraded_wherever_the_set_lies(more):
    images, sampling = make_set(), Sampling(5, 64, noise=10.0, jpeg_quality=30, **more)
    clean_lr, clean_hr = DevicePatches(images, replace(sampling, noise=0.0, jpeg_quality=None), CPU).draw(
        torch.tensor(2)
    )
    device, host = (kind(images, sampling, CPU) for kind in (DevicePatches, HostPatches))
    lr, hr = device.draw(torch.tensor(2))
    assert torch.equal(hr, clean_hr), "the goal is clean"
    same = (lr == clean_lr).flatten(1).all(1).double().mean().item()
    assert 0.03 < same < 0.4, "an eighth, and where nothing is to be lost, are as they were"
    host.prepare(2)
    for ours, theirs in zip(host.draw(torch.tensor(0)), (lr, hr), strict=True):
        assert torch.equal(ours, theirs)


def test_processes_share_the_samples_of_one():
    images, sampling = make_set(), Sampling(5, 8, noise=10.0, jpeg_quality=30)
    whole, _ = DevicePatches(images, sampling, CPU).draw(torch.tensor(3))
    parts = [
        DevicePatches(images, replace(sampling, rank=r, world_size=2), CPU).draw(torch.tensor(3))[0] for r in (0, 1)
    ]
    assert torch.equal(whole, torch.cat(parts))


def test_bad_settings_are_told():
    with pytest.raises(UserError, match=r"data.noise is -1; it must lie in 0 to 255"):
        BatchConfig(noise=-1)
    with pytest.raises(UserError, match=r"data.jpeg_quality is 0; it must lie in 1 to 100, or be none"):
        BatchConfig(jpeg_quality=0)
