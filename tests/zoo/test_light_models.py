"""The light models that come with the package: one for each scale, small, attentive, checked, and as good as listed."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Pillow

import enlcn
from enlcn import ENLCA
from enlcn.data.resize import imresize
from enlcn.errors import UserError
from enlcn.evaluate import evaluate
from enlcn.metrics import psnr
from enlcn.serve.catalogue import Catalogue
from enlcn.zoo import bundled, known, registry, resolve, trained_scale
from tests.zoo.test_registry import damage

PACKAGE = Path(enlcn.__file__).parent / "weights"
LIGHT = [f"enlcn-light-x{scale}" for scale in (2, 3, 4)]
BUDGET = 1_500_000  # parameters


def palace():
    return np.asarray(Pillow.open(Path(enlcn.__file__).parent / "assets" / "palace.png"))


@pytest.fixture(autouse=True)
def no_other_weights(monkeypatch):
    monkeypatch.delenv("ENLCN_WEIGHTS", raising=False)


def test_each_scale_has_its_own():
    assert [name for name in bundled() if name.startswith("enlcn-light-")] == LIGHT
    assert [resolve(None, scale) for scale in (2, 3, 4)] == LIGHT
    assert [trained_scale(factor) for factor in (1.5, 2, 2.5, 3, 3.5, 4)] == [2, 2, 3, 3, 4, 4]


def test_the_studio_takes_the_same():
    model = Catalogue(()).default
    assert (model.name, model.scales, model.largest_scale) == ("enlcn-light", (2, 3, 4), 4)
    assert [model.checkpoint(factor) for factor in (2, 2.5, 4)] == LIGHT
    for told in Catalogue(()).description[0]["checkpoints"]:
        assert told["parameters"] <= BUDGET
        assert (told["attention"]["modules"], told["attention"]["contrast"]) == (3, True)


@pytest.mark.parametrize("name", LIGHT)
def test_small_and_attentive(name):
    network = enlcn.load(name)
    assert sum(p.numel() for p in network.parameters()) <= BUDGET
    assert len(network.attentions) >= 3
    assert all(isinstance(attention, ENLCA) for attention in network.attentions)


@pytest.mark.parametrize("name", LIGHT)
def test_the_digest_is_checked(zoo, name):
    file = zoo.package / f"{name}.safetensors"
    shutil.copy(PACKAGE / file.name, file)
    shutil.copy(PACKAGE / registry.LIST_NAME, zoo.list)
    assert known()[name].sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    enlcn.load(name)
    damage(file)
    with pytest.raises(UserError, match=rf"{name}\.safetensors: damaged"):
        enlcn.load(name)


@pytest.mark.parametrize("name", LIGHT)
def test_set5_is_as_listed(name, data_dir):
    listed = known()[name]
    mean = evaluate([name], ["Set5"], listed.scale, device="cpu", border="clamp").mean(name, "Set5")
    assert mean.psnr_y == pytest.approx(listed.scores["Set5"][0], abs=0.01)
    assert mean.ssim_y == pytest.approx(listed.scores["Set5"][1], abs=1e-4)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_bundled_weights_beat_bicubic_on_the_bundled_photo(scale):
    """At each scale by its own network, the default one."""
    hr = palace()[:252]  # divisible by each
    lr = imresize(hr, 1 / scale)
    ours, bicubic = enlcn.upscale(lr, scale), imresize(lr, float(scale))
    assert np.array_equal(ours, enlcn.upscale(lr, model=f"enlcn-light-x{scale}"))
    assert psnr(ours, hr, shave=scale) > psnr(bicubic, hr, shave=scale) + 1


def test_scales_between_come_from_the_next_larger_network():
    lr = imresize(palace(), 1 / 4)
    assert np.array_equal(enlcn.upscale(lr), enlcn.upscale(lr, 4))
    for scale, through in ((1.5, 2), (2.5, 3), (3.5, 4)):
        out = enlcn.upscale(lr, scale)
        assert out.shape == (lr.shape[0] * scale, lr.shape[1] * scale, 3)
        assert np.array_equal(out, enlcn.upscale(lr, scale, model=f"enlcn-light-x{through}"))
