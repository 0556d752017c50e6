"""A family's own model at a scale where there is one, the next larger one, shrunk, where there is none."""

import shutil

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import enlcn
from enlcn.cli import app
from enlcn.data.resize import imresize
from enlcn.errors import UserError
from enlcn.serve.catalogue import Catalogue
from enlcn.zoo import is_path, native_scale, resolve, trained_scale


@pytest.fixture
def pixels(photo):
    return np.asarray(Image.open(photo).crop((100, 60, 124, 76)))


def test_the_native_model_is_taken_where_there_is_one(zoo, pixels):
    for scale in (2, 3, 4):
        zoo.add(f"enlcn-light-x{scale}", seed=scale)
    for scale in (2, 3, 4):
        assert trained_scale(scale) == scale
        assert resolve(None, scale) == f"enlcn-light-x{scale}"
        expected = enlcn.upscale(pixels, model=zoo.package / f"enlcn-light-x{scale}.safetensors")
        assert np.array_equal(enlcn.upscale(pixels, scale), expected)
        assert np.array_equal(enlcn.upscale(pixels, scale, model="enlcn-light"), expected)
    assert trained_scale(2.5) == 3
    assert native_scale(None) == 4
    assert native_scale("enlcn-light-x2") == 2


def test_without_a_native_model_the_next_larger_is_shrunk(zoo, pixels):
    zoo.add("enlcn-light-x4", seed=4)
    assert [trained_scale(scale) for scale in (1.5, 2, 3, 4)] == [4, 4, 4, 4]
    shrunk = enlcn.upscale(pixels, 2)
    assert np.array_equal(shrunk, enlcn.upscale(pixels, 2, model=zoo.package / "enlcn-light-x4.safetensors"))
    assert np.abs(shrunk - imresize(enlcn.upscale(pixels, 4), 0.5).astype(float)).max() < 8  # rounded between passes
    zoo.add("enlcn-light-x2", seed=2)
    assert trained_scale(2) == 2
    assert trained_scale(3) == 4
    native = enlcn.upscale(pixels, 2)
    assert not np.array_equal(native, shrunk)
    assert np.array_equal(native, enlcn.upscale(pixels, model=zoo.package / "enlcn-light-x2.safetensors"))


def test_new_weights_are_taken_although_the_old_were_used_before(zoo, pixels):
    zoo.add("enlcn-light-x2", seed=1)
    first = enlcn.upscale(pixels, 2)
    (zoo.package / "enlcn-light-x2.safetensors").unlink()
    zoo.add("enlcn-light-x2", seed=2)
    assert not np.array_equal(enlcn.upscale(pixels, 2), first)


def test_the_large_family_by_name(zoo):
    zoo.add("enlcn-light-x4")
    zoo.add_parts("enlcn-x4")
    assert resolve("enlcn", trained_scale(2, "enlcn")) == "enlcn-x4"
    assert native_scale("enlcn") == 4
    assert native_scale("enlcn-x4") == 4
    assert native_scale(str(zoo.weights / "enlcn-x4")) == 4
    with pytest.raises(UserError, match=r"enlcn: there are no weights for x2, only for x4"):
        resolve("enlcn", 2)


def test_names_go_before_folders_that_are_called_alike(zoo, pixels, tmp_path, monkeypatch):
    """As in a clone, whose folder enlcn/ is the package."""
    zoo.add("enlcn-light-x4")
    zoo.add_parts("enlcn-x4", seed=1)
    monkeypatch.chdir(tmp_path)
    for name in ("enlcn", "enlcn-x4", "other"):
        (tmp_path / name).mkdir()
    Image.fromarray(pixels).save("a.png")
    assert not any(is_path(name) for name in ("enlcn", "enlcn-x4", "none"))
    assert all(is_path(name) for name in ("./enlcn", "other"))
    assert Catalogue(("enlcn",)).default.checkpoint(4) == "enlcn-x4"
    for more in (["--dry-run"], []):
        done = CliRunner().invoke(app, ["upscale", "a.png", "-m", "enlcn", "-o", "b.png", *more])
        assert done.exit_code == 0, done.output
    assert np.array_equal(np.asarray(Image.open("b.png")), enlcn.upscale(pixels, model="enlcn-x4"))


def test_families_where_one_model_is_meant(zoo):
    zoo.add("enlcn-light-x2")
    zoo.add("enlcn-light-x4")
    with pytest.raises(UserError, match=r"^enlcn-light: a family of models.*: enlcn-light-x2, enlcn-light-x4$"):
        enlcn.load("enlcn-light")


def test_a_known_model_that_is_not_here(zoo, tmp_path, monkeypatch):
    zoo.add("enlcn-light-x4")
    zoo.add_parts("enlcn-x4")
    shutil.rmtree(zoo.weights / "enlcn-x4")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"enlcn-x4: not on this computer; .* takes it from there$"):
        Catalogue(("enlcn-x4",))
    (tmp_path / "enlcn-x4").mkdir()
    with pytest.raises(
        UserError, match=r"enlcn-x4: not on this computer; .*; for what is called so here give \./enlcn-x4$"
    ):
        enlcn.load("enlcn-x4")


def test_models_that_are_not_here_are_not_preferred(zoo):
    zoo.add("enlcn-light-x4")
    zoo.add("enlcn-light-x2")
    (zoo.package / "enlcn-light-x2.safetensors").unlink()
    assert trained_scale(2) == 4


def test_no_models_at_all(zoo):
    assert native_scale(None) == 4
    with pytest.raises(UserError, match="no trained weights come with this version"):
        resolve(None, 4)


def test_the_command_line_takes_the_native_model(zoo, pixels, tmp_path):
    for scale in (2, 4):
        zoo.add(f"enlcn-light-x{scale}", seed=scale)
    Image.fromarray(pixels).save(tmp_path / "in.png")
    for scale in (2, 4):
        done = CliRunner().invoke(app, ["upscale", str(tmp_path / "in.png"), "-s", str(scale), "--precision", "fp32"])
        assert done.exit_code == 0, done.output
        written = np.asarray(Image.open(tmp_path / f"in_x{scale}.png"))
        assert np.array_equal(written, enlcn.upscale(pixels, scale, precision="fp32"))
