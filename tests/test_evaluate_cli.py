"""`enlcn evaluate` from end to end, as a user types it."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image as Pillow
from typer.testing import CliRunner

from enlcn import checkpoint, recipes
from enlcn.cli import evaluate as command
from enlcn.data.image_io import Image, load_image, save_image
from enlcn.data.resize import imresize
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(command.evaluate)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working folder with a test set "photos" and a checkpoint "net.safetensors"."""
    from skimage.data import astronaut

    for index in range(2):
        save_image(Image(astronaut()[100 * index :][:120, :140]), tmp_path / "photos" / f"{index}.png")
    checkpoint.save(SRNetwork(recipes.TINY), tmp_path / "net.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> str:
    """What the command prints; errors come out as they are."""
    return CliRunner().invoke(app, [*arguments, "--device", "cpu"], catch_exceptions=False).output


def test_all_that_can_be_asked_for_in_one_run(folder):
    (folder / "photos").rename(folder / "Set5")  # which the paper's table has
    for index in (2, 3, 4):
        shutil.copy(folder / "Set5" / "0.png", folder / "Set5" / f"{index}.png")
    arguments = ["-m", "bicubic", "-m", "net.safetensors", "-d", "Set5", "-s", "4", "--paper", "--self-ensemble"]
    arguments += ["--out", "out", "--crops", "out/crops.png", "--save-images", "out/sr", "--precision", "bf16"]
    output = run(*arguments)
    assert "bicubic" in output
    assert "ENLCN" in output
    assert "Set5: 5 images, LR from imresize of HR, border=mirror" in output
    document = json.loads((folder / "out" / "results.json").read_text())
    assert document["settings"] == {
        "scale": 4,
        "shave": 4,
        "precision": "bf16",
        "self_ensemble": True,
        "mode": "whole",
        "border": "mirror",
        "noise": 0.0,
        "jpeg_quality": None,
        "device": "cpu",
    }
    assert len(document["images"]) == 10
    assert (folder / "out" / "results.md").read_text().count("(paper)") == 15
    assert (folder / "out" / "results.csv").read_text().count("\n") == 11
    assert load_image(folder / "out" / "crops.png").width > 5 * 200
    saved = load_image(folder / "out" / "sr" / "net" / "Set5" / "1_x4.png")
    assert saved.pixels.shape == (120, 140, 3)
    with pytest.raises(UserError, match=r"results\.json: exists already; pass --overwrite"):
        run(*arguments)
    run(*arguments, "--overwrite")


def test_saved_images_are_those_that_were_measured(folder):
    run("-m", "bicubic", "-d", "photos", "-s", "2", "--save-images", "sr", "--out", "out")
    from enlcn.metrics import psnr

    first = json.loads((folder / "out" / "results.json").read_text())["images"][0]
    saved, truth = load_image("sr/bicubic/photos/0_x2.png").pixels, load_image("photos/0.png").pixels
    assert psnr(saved, truth, shave=2) == pytest.approx(first["psnr_y"], abs=1e-9)


def test_jpeg_is_what_a_file_of_that_quality_holds(folder):
    run("-m", "bicubic", "-d", "photos", "-s", "2", "--jpeg", "40", "--out", "out")
    from enlcn.metrics import psnr

    document = json.loads((folder / "out" / "results.json").read_text())
    assert (document["settings"]["jpeg_quality"], document["settings"]["noise"]) == (40, 0.0)
    hr = load_image("photos/0.png").pixels
    file = io.BytesIO()
    Pillow.fromarray(imresize(hr, 0.5)).save(file, "JPEG", quality=40)
    expected = psnr(imresize(np.array(Pillow.open(file)), 2.0), hr, shave=2)
    assert document["images"][0]["psnr_y"] == pytest.approx(expected, abs=1e-9)
    assert "LR from JPEG of quality 40" in (folder / "out" / "results.md").read_text()
    header, first = (folder / "out" / "results.csv").read_text().splitlines()[:2]
    assert header.startswith("scale,noise,jpeg_quality,model,")
    assert first.startswith("2,0,40,bicubic,photos,0,")
    (folder / "photos").rename(folder / "Set5")
    for index in (2, 3, 4):
        shutil.copy(folder / "Set5" / "0.png", folder / "Set5" / f"{index}.png")
    assert "of clean LR images" in run("-m", "bicubic", "-d", "Set5", "-s", "4", "--jpeg", "40", "--paper")
    assert "of clean LR images" not in run("-m", "bicubic", "-d", "Set5", "-s", "4", "--paper")


def test_a_chosen_crop(folder):
    run("-m", "bicubic", "-d", "photos", "-s", "4", "--crops", "c.png", "--crop", "8,8,50,50", "--crop-image", "1")
    picture = load_image("c.png").pixels
    crop = load_image("photos/1.png").pixels[8:58, 8:58].repeat(4, axis=0).repeat(4, axis=1)
    right = picture[8 : 8 + 200, -8 - 200 : -8]
    assert np.array_equal(right[1:-1, 1:-1], crop[1:-1, 1:-1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-d", "photos", "--border", "wrap"], "choose from mirror, clamp"),
        (["-d", "photos", "--jpeg", "0"], "--jpeg is 0; it must be a whole number from 1 to 100"),
        (["-d", "photos", "--noise", "-1"], "--noise is -1; it must lie in 0 to 255"),
        (["-d", "photos", "--noise", "nan"], "--noise is nan; it must lie in 0 to 255"),
        (["-d", "photos", "--crop", "1,2,3"], "X,Y,W,H"),
        (["-d", "photos", "--crop", "1,2,3,4"], "belong to --crops"),
        (["-d", "photos", "--crops", "crops.gif"], "cannot write '.gif' files"),
        (["-d", "photos", "--crops", "crops.png", "--crop-image", "7"], "--crop-image is '7', which is in none"),
        (["-d", "photos", "--precision", "int8"], "choose from auto, fp32, bf16, fp16"),
        (["-d", "nowhere"], "nowhere: no such folder"),
        (["-d", "Urban100"], "Urban100: test set not found; looked in"),
        (["-d", "photos", "-m", "nowhere.pt"], "no such file or model"),
    ],
)
def test_bad_requests_are_one_line(arguments, message, folder):
    with pytest.raises(UserError, match=message.replace(".", r"\.")) as caught:
        run("-m", "bicubic", "-s", "4", *arguments)
    assert "\n" not in str(caught.value)


def test_damaged_images_are_named(folder):
    (folder / "photos" / "0.png").write_bytes((folder / "photos" / "0.png").read_bytes()[:900])
    with pytest.raises(UserError, match=r"photos.0\.png: damaged or truncated PNG.*; nothing is reported of an incomp"):
        run("-m", "bicubic", "-d", "photos", "-s", "4")


def test_a_familys_name_is_completed_by_the_scale_and_a_run_stands_for_its_network(folder):
    checkpoint.save(SRNetwork(recipes.network("enlcn-tiny-x2")), folder / "runs" / "tiny" / "model.safetensors")
    run("-m", "untrained:enlcn-tiny", "-m", "runs/tiny", "-d", "photos", "-s", "2", "--out", "out")
    models = json.loads((folder / "out" / "results.json").read_text())["models"]
    assert [model["name"] for model in models] == ["untrained:enlcn-tiny", "runs/tiny"]
    assert models[0]["source"] == "untrained:enlcn-tiny-x2"


def test_what_the_paper_does_not_have_is_said(folder):
    (folder / "photos" / "1.png").unlink()
    output = run("-m", "bicubic", "-d", "photos", "-s", "3", "--paper", "--out", "out")
    assert "photos: 1 image, LR from" in output
    assert "the paper has no figures for x3" in output
    assert "below the line" not in output
    written = (folder / "out" / "results.md").read_text()
    assert "the paper has no figures for x3" in written
    assert "(paper)" not in written
    output = run("-m", "bicubic", "-d", "photos", "-s", "4", "--paper")
    assert "the paper has no figures for these sets at x4" in output
    assert "ENLCN" not in output


def test_help_needs_no_torch():
    import subprocess
    import sys

    code = "import enlcn.cli.evaluate, sys; sys.exit('torch' in sys.modules or 'pyvips' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
