"""The family for JPEG files is named where it helps, in one line however many files there are."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.zoo import photo_family_helps


@pytest.fixture
def families(zoo):
    for name in ("enlcn-light-x2", "enlcn-light-x4", "enlcn-photo-x2"):
        zoo.add(name)
    return zoo


def run(*arguments):
    done = CliRunner().invoke(app, ["upscale", "--device", "cpu", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stderr


def pictures(photo, folder, qualities):
    folder.mkdir()
    for at, quality in enumerate(qualities):
        crop = Image.open(photo).convert("RGB").crop((0, 0, 24 + at, 16))
        crop.save(folder / f"{at}.jpg", quality=quality)
    return folder


def test_which_pictures_are_worth_a_word(families):
    assert photo_family_helps(60, "enlcn-light-x2")
    assert not photo_family_helps(None, "enlcn-light-x2"), "no JPEG"
    assert not photo_family_helps(98, "enlcn-light-x2"), "hardly compressed"
    for chosen in (
        "enlcn-photo-x2",
        "enlcn-fast-x2",
        "/some/where/enlcn-light-x2.safetensors",
        "enlcn-light-xmine",
        None,
    ):
        assert not photo_family_helps(60, chosen)


def test_nothing_is_said_of_a_family_that_is_not_here(zoo):
    zoo.add("enlcn-light-x2")
    assert not photo_family_helps(60, "enlcn-light-x2")
    zoo.add("enlcn-photo-x2")
    assert photo_family_helps(60, "enlcn-light-x2")
    (zoo.package / "enlcn-photo-x2.safetensors").unlink()
    assert not photo_family_helps(60, "enlcn-light-x2"), "known, but not here"


def test_the_advice_can_be_followed_at_the_same_scale(families, photo, tmp_path):
    """The family has x2 alone: nothing is said at x4, and at x2 a larger one would do."""
    folder = pictures(photo, tmp_path / "photos", (50,))
    assert "note:" not in run(folder / "0.jpg", "-s", "4", "-o", tmp_path / "a.png")
    families.add("enlcn-photo-x4")
    assert "-m enlcn-photo" in run(folder / "0.jpg", "-s", "4", "-o", tmp_path / "b.png")
    (families.package / "enlcn-photo-x2.safetensors").unlink()
    assert photo_family_helps(50, "enlcn-light-x2")


def test_one_line_for_one_picture_and_for_many(families, photo, tmp_path):
    folder = pictures(photo, tmp_path / "photos", (50, 72, 100))
    alone = run(folder / "0.jpg", "-s", "2", "-o", tmp_path / "alone.png", "--report", tmp_path / "r.json")
    assert "note: this is a JPEG of quality about 50; -m enlcn-photo removes" in alone.replace("\n", " ")
    assert json.loads((tmp_path / "r.json").read_text())[0]["jpeg_quality"] == 50
    many = run(folder, "-s", "2", "-o", tmp_path / "many").replace("\n", " ")
    assert "note: 2 of the pictures are JPEGs of quality 50 to 72; -m enlcn-photo removes" in many
    assert many.count("note:") == 1
    (folder / "1.jpg").unlink()
    fewer = run(folder, "-s", "2", "-o", tmp_path / "fewer").replace("\n", " ")
    assert "note: 1 of the pictures is a JPEG of quality about 50; -m enlcn-photo removes" in fewer
    assert "note:" not in run(folder, "-s", "2", "-m", "enlcn-photo", "-o", tmp_path / "again")
    assert "note:" not in run(folder / "2.jpg", "-s", "2", "-o", tmp_path / "fine.png")


def test_pictures_too_large_for_memory_are_told_as_well(families, photo, tmp_path):
    large = Image.open(photo).convert("RGB").resize((2100, 1200))
    large.save(tmp_path / "large.jpg", quality=40)
    told = run(tmp_path / "large.jpg", "-s", "2", "--memory-limit", "512M", "-o", tmp_path / "large.png", "-j", "1")
    assert "this is a JPEG of quality about 40" in told.replace("\n", " ")
    assert np.asarray(Image.open(tmp_path / "large.png")).shape == (2400, 4200, 3)
