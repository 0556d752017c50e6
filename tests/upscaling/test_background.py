"""Transparent pictures on a colour, and what stays wholly transparent, opaque or of that colour."""

from dataclasses import replace

import numpy as np
import pytest

from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.background import on_colour, parse_colour
from enlcn.upscaling.batch import Batch
from enlcn.upscaling.batch_options import BatchOptions
from enlcn.upscaling.extremes import hold_clear
from enlcn.upscaling.foreseen import alpha_problem
from enlcn.upscaling.jobs import Job
from enlcn.upscaling.planes import MemoryPlane
from enlcn.upscaling.target import Target

TARGET = Target(scale=4)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny-x4.safetensors"
    save(SRNetwork(recipes.TINY), path)
    return path


@pytest.fixture(params=[False, True], ids=["in memory", "through files"])
def large(request, monkeypatch):
    if request.param:
        pytest.importorskip("pyvips")
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: request.param)


def picture(channels=3, dtype=np.uint8):
    """Wholly transparent on the left, opaque on the right, anything between."""
    rng = np.random.default_rng(3)
    pixels, alpha = (rng.integers(0, np.iinfo(dtype).max + 1, (16, 40, c)).astype(dtype) for c in (channels, 1))
    alpha[:, :12], alpha[:, -12:] = 0, np.iinfo(dtype).max
    return Image(pixels, alpha[..., 0])


def upscaled(image, model, folder, name="a", target="tif", **options):
    source = folder / f"{name}.png"
    source.write_bytes(encode_image(image, "png"))
    job = Job(source, folder / f"{name}_x4.{target}", {"tif": "tiff", "jpg": "jpeg"}[target])
    outcome = Batch(BatchOptions(TARGET, str(model), **options)).run_one(job)
    assert outcome.status == "done", outcome.message
    return load_image(job.target)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    ("channels", "colour"), [(3, "#0080ff"), (3, "white"), (1, "#0080ff"), (1, "white"), (1, "grey")]
)
def test_as_if_it_had_been_put_there_before(tmp_path, model, large, dtype, channels, colour):
    image, values = picture(channels, dtype), parse_colour(colour)
    largest = np.iinfo(dtype).max
    share = image.alpha[..., None] / largest
    coloured = channels == 3 or colour.startswith("#")
    behind = np.array(values[: 3 if coloured else 1]) * largest
    flat = replace(image, pixels=(image.pixels * share + behind * (1 - share) + 0.5).astype(dtype), alpha=None)
    assert np.abs(on_colour(image, values).pixels.astype(int) - flat.pixels).max() <= 1
    ours = upscaled(image, model, tmp_path, background=values)
    wanted = upscaled(flat, model, tmp_path, "b")
    assert ours.alpha is None
    assert ours.pixels.shape == (64, 160, 3 if coloured else 1)
    step = 1 if dtype == np.uint8 else 16
    assert np.abs(ours.pixels[:, 40:].astype(int) - wanted.pixels[:, 40:]).max() <= step
    assert np.abs(ours.pixels[:, :40] - behind).max() <= 0.5  # to the bit


def test_what_is_transparent_or_opaque_stays_so(tmp_path, model, large):
    result = upscaled(picture(), model, tmp_path)
    assert (result.alpha[:, :40] == 0).all()
    assert (result.alpha[:, -40:] == 255).all()
    assert 0 < result.alpha[:, 60:100].mean() < 255


def test_jpeg_takes_transparent_pictures_on_a_colour(tmp_path, model, large):
    assert upscaled(picture(), model, tmp_path, target="jpg", background=(1, 1, 1)).pixels.shape == (64, 160, 3)


def test_only_what_is_far_from_everything_else_is_held():
    alpha = np.full((9, 20, 1), 255, np.uint8)
    alpha[:, :10] = 0
    alpha[4, 2] = 7
    result = np.full((18, 40, 1), 100, np.uint8)
    hold_clear(MemoryPlane(alpha), MemoryPlane(result), 2, np.array([7]))
    assert (result[4:14, :10] == 100).all()  # within two pixels of the one that is not clear
    assert (result[:4, :16] == 7).all()
    assert (result[:, 16:] == 100).all()  # within two pixels of the edge, or opaque


def test_strips_make_no_difference(monkeypatch):
    alpha = (np.random.default_rng(0).random((40, 30, 1)) < 0.02).astype(np.uint8) * 255
    results = []
    for pixels in (1 << 20, 60):
        monkeypatch.setattr("enlcn.upscaling.planes._STRIP_PIXELS", pixels)
        result = MemoryPlane(np.full((120, 90, 1), 9, np.uint8))
        hold_clear(MemoryPlane(alpha), result, 3, np.array([0]))
        results.append(result.array)
    assert np.array_equal(*results)
    assert set(np.unique(results[0])) == {0, 9}


@pytest.mark.parametrize(
    ("text", "colour"), [("White", (1, 1, 1)), ("#0f0", (0, 1, 0)), ("000033", (0, 0, 0.2)), ("gray", (0.5, 0.5, 0.5))]
)
def test_colours(text, colour):
    assert parse_colour(text) == pytest.approx(colour)


@pytest.mark.parametrize("text", ["", "reddish", "#12345", "#1234567", "#ggg"])
def test_what_is_no_colour(text):
    with pytest.raises(UserError, match=r"is no colour known here; give white, black, grey, or #rrggbb"):
        parse_colour(text)


def test_dry_runs_see_transparency(tmp_path):
    clear, opaque = tmp_path / "clear.png", tmp_path / "opaque.png"
    clear.write_bytes(encode_image(picture(), "png"))
    opaque.write_bytes(encode_image(replace(picture(), alpha=np.full((16, 40), 255, np.uint8)), "png"))
    assert alpha_problem(Job(clear, None, "jpeg")) == "transparent, which JPEG cannot be: pass --background white"
    for job in (Job(clear, None, "png"), Job(opaque, None, "jpeg"), Job(None, None, "jpeg")):
        assert alpha_problem(job) == ""
