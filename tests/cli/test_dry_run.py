"""`--dry-run` says no to what the run would refuse, and in the same words."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.errors import UserError

pytest.importorskip("pyvips")

TINY = ["-m", "untrained:enlcn-tiny", "--device", "cpu"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused_both_ways(*arguments: str) -> str:
    """Why a run ends, as its dry run tells it, too."""
    command = ["upscale", *arguments, *TINY]
    planned = CliRunner().invoke(app, [*command, "--dry-run"])
    done = CliRunner().invoke(app, command)
    assert isinstance(done.exception, UserError), done.output
    told = str(done.exception).partition(": ")[2]
    assert planned.exit_code == 1
    assert f"({told})" in planned.stdout
    return told


@pytest.mark.parametrize(("format", "limit"), [("jpeg", 65_500), ("webp", 16_383), ("avif", 16_384)])
@pytest.mark.parametrize("streamed", [False, True])
def test_sides_beyond_the_format(format, limit, streamed, monkeypatch):
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: streamed)
    Image.new("RGB", (limit // 2 + 1, 3)).save("wide.png")
    assert f"holds at most {limit:,} pixels a side" in refused_both_ways("wide.png", "-s", "2", "-f", format)


@pytest.mark.parametrize("options", [["-f", "jpeg", "--quality", "500"], ["-f", "jpeg", "--lossless"]])
def test_what_cannot_be_written_so(options):
    Image.new("RGB", (8, 6)).save("a.png")
    command = ["upscale", "a.png", *options, *TINY]
    assert CliRunner().invoke(app, [*command, "--dry-run"]).exit_code == 1
    assert CliRunner().invoke(app, command).exit_code != 0


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (Image.fromarray(np.zeros((6, 8), np.float32)), "has float samples; convert it to 8 or 16 bits a channel"),
        (Image.fromarray(np.zeros((6, 8), np.int32)), "has int samples; convert it to 8 or 16 bits a channel"),
        (Image.new("LAB", (8, 6)), "its Lab colours are not read in this form; convert it to RGB"),
    ],
    ids=["float", "int", "lab"],
)
def test_samples_that_are_not_read(picture, told):
    picture.save("a.tif")
    assert refused_both_ways("a.tif") == told


def test_a_compression_that_is_not_read():
    Image.new("RGB", (8, 6)).save("a.tif", compression="zstd")
    assert refused_both_ways("a.tif") == "its ZSTD compression is not read here; save it with LZW or Deflate"


def test_samples_without_libvips(monkeypatch):
    monkeypatch.setattr("enlcn.data.vips_codec.is_available", lambda format: False)
    Image.fromarray(np.zeros((6, 8), np.float32)).save("a.tif")
    assert refused_both_ways("a.tif") == "has 32-bit samples; convert it to 8 or 16 bits a channel"


def test_scratch_space(monkeypatch):
    for place in ("batch", "foreseen"):
        monkeypatch.setattr(f"enlcn.upscaling.{place}.is_large", lambda path, options: True)
    Image.new("RGB", (8, 6)).save("a.png")
    assert CliRunner().invoke(app, ["upscale", "a.png", *TINY, "--dry-run"]).exit_code == 0

    def no_room(folder, nbytes):
        raise UserError(f"{folder}: no room for {nbytes}")

    monkeypatch.setattr("enlcn.upscaling.large.require_disk", no_room)
    planned = CliRunner().invoke(app, ["upscale", "a.png", *TINY, "--dry-run"])
    done = CliRunner().invoke(app, ["upscale", "a.png", *TINY])
    assert planned.exit_code == 1
    assert f"({done.exception})" in planned.stdout


def test_a_sound_tiff_has_nothing_in_its_way(caplog):
    frames = [Image.new("RGB", (8, 6)), Image.new("RGB", (8, 6))]
    frames[0].save("a.tif", save_all=True, append_images=frames[1:])
    assert CliRunner().invoke(app, ["upscale", "a.tif", *TINY, "--dry-run"]).exit_code == 0
    assert caplog.messages == []  # what the run will tell
