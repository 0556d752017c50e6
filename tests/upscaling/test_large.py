"""Pictures through scratch files: what comes out is what comes out of memory."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageCms

from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.batch import Batch
from enlcn.upscaling.batch_options import BatchOptions
from enlcn.upscaling.jobs import Job
from enlcn.upscaling.large import header_size
from enlcn.upscaling.target import Target

pytest.importorskip("pyvips")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny-x4.safetensors"
    save(SRNetwork(recipes.TINY), path)
    return path


def picture(channels=3, dtype=np.uint8, alpha=False, orientation=1):
    rng = np.random.default_rng(5)
    shape = (21, 34)
    values = rng.integers(0, np.iinfo(dtype).max + 1, (*shape, channels)).astype(dtype)
    mask = rng.integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype) if alpha else None
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "maker"
    icc = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes() if channels == 3 else None
    texts = _chunk(b"tEXt", b"parameters\0a cat")
    block = exif.tobytes().removeprefix(b"Exif\0\0")
    return Image(values, mask, icc=icc, exif=block, png_texts=texts, dpi=(300.0, 150.0))


def _chunk(kind, content):
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


def both_ways(image, model, folder, monkeypatch, *, suffix=".png", scale=4.0, source_format="png"):
    """The same job in memory and through files."""
    source = folder / f"in.{source_format}"
    source.write_bytes(encode_image(image, source_format))
    results = []
    for large in (False, True):
        batch = Batch(BatchOptions(Target(scale=scale), str(model)))
        if large:
            monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: True)
            engine = batch.engine_for(21, 34)
            engine.limit = engine.host_limit = 0  # nothing may stay in memory
        target = folder / f"out-{large}{suffix}"
        outcome = batch.run_one(Job(source, target, suffix.lstrip(".")))
        assert outcome.status == "done", outcome.message
        assert (outcome.disk > 0) == large
        results.append(load_image(target))
    return results


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("alpha", [False, True])
def test_pixels_and_metadata(tmp_path, model, monkeypatch, dtype, channels, alpha):
    in_memory, streamed = both_ways(picture(channels, dtype, alpha), model, tmp_path, monkeypatch)
    assert streamed.pixels.shape == (84, 136, channels)
    assert streamed.pixels.dtype == dtype
    step = 1 if dtype == np.uint8 else 10
    assert np.abs(streamed.pixels.astype(int) - in_memory.pixels).max() <= step
    assert (streamed.alpha is None) == (not alpha)
    if alpha:
        assert np.abs(streamed.alpha.astype(int) - in_memory.alpha).max() <= step
    assert streamed.icc == in_memory.icc
    assert streamed.dpi == pytest.approx(in_memory.dpi, rel=1e-3)
    assert b"maker" in streamed.exif
    assert streamed.png_texts == in_memory.png_texts == picture().png_texts


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(tmp_path, model, monkeypatch, orientation):
    in_memory, streamed = both_ways(
        picture(orientation=orientation), model, tmp_path, monkeypatch, source_format="jpeg"
    )
    assert streamed.dpi == pytest.approx(in_memory.dpi, rel=1e-2)
    assert streamed.pixels.shape == in_memory.pixels.shape
    assert np.abs(streamed.pixels.astype(int) - in_memory.pixels).max() <= 1


@pytest.mark.parametrize("suffix", [".jpeg", ".webp", ".avif", ".tiff"])
def test_formats_and_fractional_scales(tmp_path, model, monkeypatch, suffix):
    in_memory, streamed = both_ways(picture(), model, tmp_path, monkeypatch, suffix=suffix, scale=2.5)
    assert streamed.pixels.shape == in_memory.pixels.shape == (52, 85, 3)
    assert np.abs(streamed.pixels.astype(int) - in_memory.pixels).mean() < 0.1
    assert b"maker" in streamed.exif


def test_tiff_to_tiff_keeps_exif(tmp_path, model, monkeypatch):
    in_memory, streamed = both_ways(picture(), model, tmp_path, monkeypatch, suffix=".tiff", source_format="tiff")
    assert b"maker" in streamed.exif
    assert streamed.exif == in_memory.exif


@pytest.mark.parametrize(
    ("alpha", "options", "message"),
    [
        (True, {}, "JPEG cannot hold transparency"),
        (False, {"quality": 500}, "quality must lie between 1 and 100"),
        (False, {"lossless": True}, "JPEG has no lossless mode"),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_what_cannot_be_written_is_refused_before_the_work(
    tmp_path, model, monkeypatch, alpha, options, message, large
):
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: large)
    monkeypatch.setattr("enlcn.upscaling.engine.Engine.upscale", lambda *a, **k: pytest.fail("the network ran"))
    source = tmp_path / "in.png"
    source.write_bytes(encode_image(picture(alpha=alpha), "png"))
    outcome = Batch(BatchOptions(Target(scale=4), str(model), **options)).run_one(
        Job(source, tmp_path / "o.jpg", "jpeg")
    )
    assert outcome.status == "failed"
    assert message in outcome.message
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("format", ["TIFF", "JPEG", "PNG", "WEBP", "AVIF"])
@pytest.mark.parametrize(("orientation", "size"), [(1, (30, 20)), (3, (30, 20)), (6, (20, 30))])
def test_sizes_by_the_header_are_as_seen(tmp_path, format, orientation, size):
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    Pillow.new("RGB", (30, 20)).save(tmp_path / "a", format, exif=exif)
    assert header_size(tmp_path / "a") == size


def test_sizes_by_the_header_go_by_exif_alone(tmp_path):
    """As pictures are turned: what XMP says of orientation turns none."""
    packet = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    Pillow.new("RGB", (30, 20)).save(tmp_path / "a.jpg", xmp=packet)
    assert header_size(tmp_path / "a.jpg") == (30, 20)
    assert load_image(tmp_path / "a.jpg").width == 30


@pytest.mark.parametrize("format", ["jpeg", "tiff"])
def test_iptc_and_xmp(tmp_path, model, monkeypatch, format):
    records = b"\x1c\x02\x78\0\5house\x1c\x02\x19\0\4view"
    packet = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r tiff:Orientation="6" tiff:ImageWidth="34"/></x:xmpmeta>'
    image = replace(picture(orientation=6), iptc=records, xmp=packet)
    results = both_ways(image, model, tmp_path, monkeypatch, suffix=f".{format}", source_format="jpeg")
    for result in results:
        assert result.iptc == records
        assert b'tiff:Orientation="1" tiff:ImageWidth="84"' in result.xmp


def test_what_is_lost_is_in_the_outcome(tmp_path, model, monkeypatch):
    (tmp_path / "a.jpg").write_bytes(encode_image(replace(picture(), iptc=b"\x1c\x02\x78\0\5house"), "jpeg"))
    batch = Batch(BatchOptions(Target(scale=2), str(model)))
    for large in (False, True):
        monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options, large=large: large)
        outcome = batch.run_one(Job(tmp_path / "a.jpg", tmp_path / f"{large}.png", "png"))
        assert outcome.told == ("its IPTC metadata is left out; only JPEG and TIFF hold it",)


def test_harmless_warnings_are_overlooked(tmp_path, model, monkeypatch):
    """Stray bytes before a marker: read in memory, so read here too."""
    data = bytearray(encode_image(picture(), "jpeg"))
    data[-2:-2] = b"\x00\x00"
    source = tmp_path / "stray.jpg"
    source.write_bytes(data)
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: True)
    outcome = Batch(BatchOptions(Target(scale=4), str(model))).run_one(Job(source, tmp_path / "o.png", "png"))
    assert outcome.status == "done", outcome.message


def test_truncated_file_leaves_no_output(tmp_path, model, monkeypatch):
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: True)
    source = tmp_path / "cut.png"
    source.write_bytes(encode_image(picture(), "png")[:-900])
    outcome = Batch(BatchOptions(Target(scale=4), str(model))).run_one(Job(source, tmp_path / "o.png", "png"))
    assert outcome.status == "failed"
    assert "cut.png" in outcome.message
    assert list(tmp_path.iterdir()) == [source]


def test_what_does_not_fit_the_format_is_said_before_the_work(tmp_path, model, monkeypatch):
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: True)
    Pillow.new("RGB", (5000, 3)).save(tmp_path / "wide.png")
    outcome = Batch(BatchOptions(Target(scale=4), str(model))).run_one(
        Job(tmp_path / "wide.png", tmp_path / "o.webp", "webp")
    )
    assert "PNG or TIFF" in outcome.message
    with pytest.raises(UserError, match="contradict"):
        Batch(BatchOptions(Target(scale=4), overwrite=True, skip_existing=True))
