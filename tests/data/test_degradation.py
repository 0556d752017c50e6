"""LR that is not clean: what is drawn, and that it depends on nothing but seed and sample."""

from dataclasses import replace

import pytest
import torch

from enlcn.data import degradation
from enlcn.data.batch import BatchConfig
from enlcn.data.crops import Sampling
from enlcn.data.degradation import Degradation
from enlcn.data.jpeg_loss import jpeg_round_trip
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


@pytest.fixture
def asked(monkeypatch):
    """What JPEG is asked for, (samples,) each, and the images it is given."""
    calls = {}

    def recorder(images, quality, halved, constants):
        calls.update(images=images, quality=quality, halved=halved)
        return jpeg_round_trip(images, quality, halved, constants)

    monkeypatch.setattr(degradation, "jpeg_round_trip", recorder)
    return calls


def test_jpeg_has_the_qualities_that_were_asked_for(asked):
    count, lr = 4000, photo_like(4000, side=9)
    out = Degradation.of(BatchConfig(jpeg_quality=30), 0, CPU)(lr, torch.arange(count))
    never = (out == lr).flatten(1).all(1)
    lost = ~never
    quality, halved = (asked[name] for name in ("quality", "halved"))
    assert lost.double().mean().item() == pytest.approx(0.75, abs=0.03)
    # 30 is one quality of 71, and stands where nothing is to be done.
    assert (quality == 30).double().mean().item() == pytest.approx(0.25 + 0.75 / 71, abs=0.02)
    drawn = quality[quality > 30]
    counts = torch.bincount(drawn, minlength=101)
    assert (drawn.min(), drawn.max()) == (31, 100)
    assert counts[31:].min() > 0.4 * counts[31:].double().mean(), "all qualities"
    assert counts[31:66].sum().item() == pytest.approx(counts[66:].sum().item(), rel=0.1), "as often"
    assert halved.double().mean().item() == pytest.approx(0.5, abs=0.03)
    assert abs(torch.corrcoef(torch.stack([quality.double(), halved.double()]))[0, 1]) < 0.05


def test_blocks_begin_anywhere_in_both_directions(asked):
    """Each image is moved down and right by 0 to 15 pixels, independently, its edge repeated before and behind."""
    count, side = 3000, 9
    lr = torch.arange(side * side, dtype=torch.uint8).view(side, side).expand(count, 3, side, side)
    out = Degradation.of(BatchConfig(jpeg_quality=100), 1, CPU)(lr, torch.arange(count))
    given = asked["images"][:, 0].long()  # (count, side + 15, side + 15)
    top = (given[:, :, 0] // side == 0).sum(1) - 1
    left = (given[:, 0] % side == 0).sum(1) - 1
    for place in (top, left):
        counts = torch.bincount(place, minlength=16)
        assert len(counts) == 16
        assert counts.min() > 0.6 * count / 16
    assert abs(torch.corrcoef(torch.stack([top.double(), left.double()]))[0, 1]) < 0.05
    inside = given[
        torch.arange(count)[:, None, None],
        top[:, None, None] + torch.arange(side)[:, None],
        left[:, None, None] + torch.arange(side),
    ]
    assert torch.equal(inside, lr[:, 0].long()), "the image is there as a whole"
    assert (out.int() - lr).abs().max() <= 8, "and comes back from where it lay"


@pytest.mark.parametrize("config", [BOTH, replace(BOTH, noise=0.0), replace(BOTH, jpeg_quality=None)])
def test_a_sample_depends_on_its_number_alone(config):
    degrade = Degradation.of(config, 3, CPU)
    lr = photo_like(8)
    together = degrade(lr, torch.arange(40, 48))
    apart = torch.cat([degrade(lr[:3], torch.arange(40, 43)), degrade(lr[3:], torch.arange(43, 48))])
    assert torch.equal(together, apart)
    assert not torch.equal(together, degrade(lr, torch.arange(48, 56)))
    assert not torch.equal(together, Degradation.of(config, 4, CPU)(lr, torch.arange(40, 48)))


def test_images_of_other_sizes_share_no_noise():
    degrade = Degradation.of(BatchConfig(noise=200.0), 0, CPU)
    noisy = [sample for sample in range(40) if not torch.equal(degrade(grey(1), torch.tensor([sample])), grey(1))]
    first = degrade(grey(1, 20), torch.tensor(noisy[:1])).flatten()
    others = [degrade(grey(1, side), torch.tensor([sample])).flatten() for sample in noisy[1:] for side in (20, 10, 40)]
    for other in others:
        length = min(len(first), len(other))
        same = (first[:length] == other[:length]).double().mean()
        assert same < 0.5, "black and white are common, equality is not"


def test_a_batch_compiles_as_a_whole():
    varied = Sampling(6, 8, any_offset=True, swap_colours=True, smallest_factor=0.6, noise=10.0, jpeg_quality=30)
    patches = DevicePatches(make_set(sizes=[(19, 24), (30, 21), (26, 26)]), varied, CPU)
    compiled = torch.compile(patches.draw, fullgraph=True, dynamic=False)
    for step in (torch.tensor(0), torch.tensor(5)):
        for ours, theirs in zip(compiled(step), patches.draw(step), strict=True):
            assert torch.equal(ours, theirs)


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
    with pytest.raises(
        UserError, match=r"data.jpeg_quality is 0; it must be a whole number from 1 to 100, or left out"
    ):
        BatchConfig(jpeg_quality=0)
