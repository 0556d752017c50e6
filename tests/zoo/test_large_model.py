"""The paper's network as it lies in a clone: in parts, checked, joined, better than the light one."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import enlcn
from enlcn import recipes
from enlcn.data.resize import imresize
from enlcn.evaluate import evaluate
from enlcn.file_parts import is_intact
from enlcn.metrics import psnr
from enlcn.zoo import known, registry

NAME = "enlcn-x4"
PARTS = Path(enlcn.__file__).parents[1] / "weights" / NAME
pytestmark = pytest.mark.skipif(not PARTS.is_dir(), reason=f"needs weights/{NAME} of a clone")


@pytest.fixture(autouse=True)
def no_other_weights(monkeypatch, tmp_path):
    monkeypatch.delenv("ENLCN_WEIGHTS", raising=False)
    monkeypatch.setenv("ENLCN_CACHE", str(tmp_path))


def test_parts_are_small_and_intact():
    row = known()[NAME]
    assert row == registry.manifest.read_one(PARTS / registry.MANIFEST_NAME)
    assert sorted(path.name for path in PARTS.glob("part-*")) == [part.name for part in row.file.parts]
    for part in row.file.parts:
        assert part.size <= 16 * 2**20
        assert is_intact(PARTS / part.name, part)


def test_it_is_the_papers_network_and_beats_the_light_one():
    network = enlcn.load(NAME)
    assert network.config == recipes.ENLCN
    photo = Path(enlcn.__file__).parent / "assets" / "palace.png"
    hr = np.asarray(Image.open(photo).convert("RGB"))[80:208, 160:352]
    lr = imresize(hr, 1 / 4)
    scores = [psnr(enlcn.upscale(lr, model=model), hr, shave=4) for model in ("enlcn-light-x4", NAME)]
    assert scores[1] > scores[0] > psnr(imresize(lr, 4.0), hr, shave=4) + 1


@pytest.mark.slow
def test_set5_is_as_listed(data_dir):
    listed = known()[NAME].scores["Set5"]
    mean = evaluate([NAME], ["Set5"], 4, device="cpu").mean(NAME, "Set5")
    assert mean.psnr_y == pytest.approx(listed[0], abs=0.01)
    assert mean.ssim_y == pytest.approx(listed[1], abs=1e-4)
