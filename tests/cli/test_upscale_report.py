"""`enlcn upscale --report`: what was done, and nothing that a report may not replace."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.data.image import Image as Picture
from enlcn.data.image_io import save_image
from enlcn.errors import UserError

TINY = ["-m", "untrained:enlcn-tiny", "--device", "cpu"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    for name in ("d/a.png", "d/b.jpg", "other.png"):
        Image.new("RGB", (8, 6), "red").save(tmp_path / name)
    return tmp_path


def upscale(*arguments):
    return CliRunner().invoke(app, ["upscale", *map(str, arguments), *TINY])


@pytest.mark.parametrize(
    ("report", "told"),
    [
        ("d/a.png", "--report d/a.png: is an input of this run"),
        ("d/../d/b.jpg", "--report d/../d/b.jpg: is an input of this run"),
        ("out/a.png", "--report out/a.png: is an output of this run"),
        ("other.png", "--report other.png: ends like a picture or video"),
        ("new.MP4", "--report new.MP4: ends like a picture or video"),
        ("new.cr2", "--report new.cr2: ends like a picture or video"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--skip-existing"], ["--overwrite"]])
def test_pictures_are_never_replaced_by_a_report(folder, report, told, more):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    done = upscale("d", "-o", "out", "--report", report, *more)
    assert isinstance(done.exception, UserError)
    assert str(done.exception) == f"{told}; name another file, such as report.json"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_only_printed_is_in_the_report(folder, streamed, monkeypatch):
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: streamed)
    frames = [Image.new("RGB", (8, 6), colour) for colour in ("red", "blue")]
    frames[0].save("moving.png", save_all=True, append_images=frames[1:])
    frames[0].save("pages.tif", save_all=True, append_images=frames[1:])
    Image.new("CMYK", (8, 6)).save("press.jpg")
    save_image(Picture(np.full((6, 8, 3), 999, np.uint16)), "deep.png")
    names = ("moving.png", "pages.tif", "press.jpg", "deep.png")
    done = upscale(*names, "-o", "out", "-f", "jpeg", "--report", "r.json")
    assert done.exit_code == 0, done.output
    notes = {row["source"]: row["notes"] for row in json.loads((folder / "r.json").read_text())}
    assert notes == {
        "moving.png": ["is an animation; only its first frame is read"],
        "pages.tif": ["has 2 pages or frames; only the first is read"],
        "press.jpg": ["its CMYK becomes sRGB"],
        "deep.png": ["JPEG holds 8 bits a channel; rounded from 16"],
    }


def test_a_run_that_goes_on_replaces_an_earlier_report_alone(folder):
    (folder / "r.json").write_text('{"settings": 1}')
    for more, told in ((["--skip-existing"], "exists, and is no earlier report"), ([], "exists already")):
        done = upscale("d", "-o", "out", "--report", "r.json", *more)
        assert told in str(done.exception)
        assert (folder / "r.json").read_text() == '{"settings": 1}'
    assert upscale("d", "-o", "out", "--report", "new.json").exit_code == 0
    assert upscale("d", "-o", "out", "--report", "new.json", "--skip-existing").exit_code == 0
    rows = json.loads((folder / "new.json").read_text())
    assert [row["status"] for row in rows] == ["skipped", "skipped"]
    both = upscale("d", "-o", "out", "--report", "new.json", "--skip-existing", "--overwrite")
    assert "contradict" in str(both.exception)
    assert json.loads((folder / "new.json").read_text()) == rows
