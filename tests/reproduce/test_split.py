"""Scored pictures are not those trained on; where they must be, every table says so."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.errors import UserError
from enlcn.reproduce.label import describe_plan, set_titles
from enlcn.reproduce.material import HELD_OUT, Material
from enlcn.reproduce.run import Left, Request, reproduce
from enlcn.reproduce.split import Sources, split
from enlcn.reproduce.store import Store
from tests.reproduce.conftest import CPU, PRESET
from tests.train.conftest import write_pictures


@pytest.fixture
def plain(tmp_path):
    """Makes a folder of some plain pictures."""

    def make(count: int) -> Path:
        write_pictures(tmp_path / "plain", count=count, size=(64, 72))
        return tmp_path / "plain"

    return make


@pytest.mark.parametrize(("count", "kept_out"), [(2, 1), (3, 1), (4, 1), (9, 2)])
def test_of_plain_pictures_some_are_kept_out_of_training(plain, tmp_path, count, kept_out):
    material = Material(Sources(plain(count), cache=tmp_path / "cache"), PRESET, CPU)
    assert list(material.scored_sets) == [HELD_OUT]
    trained = set(material.training_images.names)
    scored = {image.name for image in material.scored_sets[HELD_OUT]}
    assert (len(trained), len(scored)) == (count - kept_out, kept_out)
    assert not trained & scored
    assert not trained & {image.name for image in material.photos}
    for scale in (2, 4):
        assert {pair.hr.name for pair in material.testsets(scale)[HELD_OUT].pairs} == scored
    assert material.facts()["kept_out"] == kept_out


def test_a_single_picture_is_labelled_wherever_it_is_scored(plain, tmp_path):
    sources = Sources(plain(1), cache=tmp_path / "cache")
    changes = (("crop", 8), ("photo_side", 12))
    names = ("ablation", "visual")
    request = Request(names, tmp_path, sources, 20, device="cpu", preset="smoke", changes=changes, steps=4)
    assert reproduce(request) == Left(0, ())
    assert "scored on, and figures show, the training pictures" in describe_plan(Store(tmp_path).plan())
    result = CliRunner().invoke(app, ["reproduce", "all", "--render-only", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    table = (tmp_path / "ablation.md").read_text()
    assert "| ours, training pictures, centre of 1 image |" in table
    assert "scores are of what was trained on" in table
    assert HELD_OUT not in table
    assert "these are training pictures" in (tmp_path / "visual.md").read_text()


def test_test_sets_are_never_trained_on(plain, sources):
    folder = plain(2)
    shutil.copytree(sources.data / "benchmarks" / "Set5", folder / "Set5")
    shutil.copytree(sources.data / "benchmarks" / "Set5" / "HR", folder / "mine")
    material = Material(Sources(folder, (folder / "mine",)), PRESET, CPU)
    assert len(material.split.training) == 2
    assert all("/" not in file.name for file in material.split.training)
    assert list(material.scored_sets) == ["Set5", "mine"]
    with pytest.raises(UserError, match="holds no pictures to train on"):
        split(Sources(folder / "Set5"), has_testsets=True)
    assert list(Material(Sources(folder / "Set5"), PRESET, CPU).testsets()) == ["Set5"]


def test_pictures_that_are_set_apart_stay_so(sources, material):
    assert not material.split.chosen
    assert len(material.split.training) == 5
    assert list(material.scored_sets) == ["Set5", HELD_OUT]
    assert material.facts()["kept_out"] is None


def test_titles_say_which_part_was_scored():
    data = {"scored": {"Set5": 2, "B100": 100, HELD_OUT: 14}, "scored_of": {"Set5": 5, "B100": 100}, "test_crop": 16}
    assert set_titles(data) == {
        "Set5": "Set5, centres of 2 of 5 images",
        "B100": "B100, centres of 100 images",
        HELD_OUT: "held-out, centres of 14 images",
    }
    whole = set_titles({**data, "test_crop": None})
    assert whole == {"Set5": "Set5, 2 of 5 images", HELD_OUT: "held-out, centres of 14 images"}
