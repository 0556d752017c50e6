"""What JPEG loses, against libjpeg."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import enlcn
from enlcn.data.jpeg_loss import JpegConstants, jpeg_round_trip
from enlcn.data.jpeg_quality import _table_0, jpeg_quality

CONSTANTS = JpegConstants.on(torch.device("cpu"))
PHOTO = (
    Image.open(Path(enlcn.__file__).parent / "assets" / "palace.png").convert("RGB").crop((30, 20, 30 + 203, 20 + 117))
)


def as_tensor(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def through_libjpeg(image, quality, halved):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality, subsampling=2 if halved else 0)
    return as_tensor(Image.open(file))


def rms(first, second):
    return float((first.double() - second.double()).square().mean().sqrt())


# libjpeg computes in integers: what falls close to halfway between two levels may go the other way there. The mean
# difference in levels is this at the most; without either of its alternating roundings of chroma it would be more.
LIMITS = {5: 0.08, 30: 0.21, 50: 0.26, 75: 0.36, 90: 0.42, 98: 0.54}


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("quality", LIMITS)
def test_the_loss_is_libjpegs(quality, halved):
    original, theirs = as_tensor(PHOTO), through_libjpeg(PHOTO, quality, halved)
    ours = jpeg_round_trip(original[None], torch.tensor([quality]), torch.tensor([halved]), CONSTANTS)[0]
    assert (ours.int() - theirs.int()).abs().double().mean() < LIMITS[quality]
    lost = rms(theirs, original)
    assert rms(ours, original) == pytest.approx(lost, rel=0.01, abs=0.03)
    others = (abs(rms(through_libjpeg(PHOTO, quality + by, halved), original) - lost) for by in (-3, 2))
    assert abs(rms(ours, original) - lost) < min(others), "as near to another quality"


@pytest.mark.parametrize("quality", [10, 30, 50, 62, 75, 90, 100])
def test_flat_greys_are_libjpegs_exactly(quality):
    """Of flat blocks the only coefficient often lies halfway between two steps."""
    flats = torch.arange(256, dtype=torch.uint8)[:, None, None, None].expand(256, 3, 16, 16)
    for halved in (False, True):
        ours = jpeg_round_trip(flats, torch.full((256,), quality), torch.full((256,), halved), CONSTANTS)
        for level in range(256):
            theirs = through_libjpeg(Image.new("RGB", (16, 16), (level,) * 3), quality, halved)
            assert torch.equal(ours[level], theirs), level


def test_images_of_a_batch_have_nothing_to_do_with_each_other():
    originals = torch.stack([as_tensor(PHOTO), as_tensor(PHOTO).flip(2), as_tensor(PHOTO).flip(1)])
    quality, halved = torch.tensor([90, 10, 40]), torch.tensor([True, False, True])
    together = jpeg_round_trip(originals, quality, halved, CONSTANTS)
    for at in range(3):
        alone = jpeg_round_trip(originals[at : at + 1], quality[at : at + 1], halved[at : at + 1], CONSTANTS)
        assert torch.equal(together[at], alone[0])


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (17, 31), (16, 5)])
def test_odd_sizes(size):
    flat = torch.full((2, 3, *size), 77, dtype=torch.uint8)
    out = jpeg_round_trip(flat, torch.tensor([50, 100]), torch.tensor([True, False]), CONSTANTS)
    assert out.shape == flat.shape
    assert out.dtype == torch.uint8
    assert (out.int() - 77).abs().max() <= 2, "a flat picture stays as it is, to a step's half"


@pytest.mark.parametrize("more", [{}, {"progressive": True}, {"subsampling": 0}, {"optimize": True}])
def test_the_quality_of_a_file_is_found(more):
    for quality in (1, 10, 49, 50, 51, 75, 92, 100):
        file = io.BytesIO()
        PHOTO.save(file, "JPEG", quality=quality, exif=b"Exif\0\0" + bytes(60_000), **more)
        assert jpeg_quality(file.getvalue()) == quality
        file.seek(0)
        assert jpeg_quality(file) == quality


@pytest.mark.parametrize(("preset", "least", "most"), [("web_low", 36, 50), ("low", 80, 90), ("maximum", 90, 94)])
def test_tables_of_a_programs_own_have_about_the_quality_of_an_equal_error(preset, least, most):
    file = io.BytesIO()
    PHOTO.save(file, "JPEG", quality=preset)
    assert least <= jpeg_quality(file.getvalue()) <= most
    lost = rms(as_tensor(Image.open(file)), as_tensor(PHOTO))
    assert rms(through_libjpeg(PHOTO, least - 8, True), as_tensor(PHOTO)) > lost
    assert rms(through_libjpeg(PHOTO, min(most + 5, 98), False), as_tensor(PHOTO)) < lost


def test_tables_are_read_in_the_order_of_files():
    """A table with one long step at a place of its own on each diagonal."""
    file = io.BytesIO()
    table = [1 + at for at in range(64)]
    PHOTO.save(file, "JPEG", qtables=[table, table])
    file.seek(0)
    assert _table_0(file) == table


def test_a_second_table_replaces_the_first():
    files = []
    for quality in (1, 60):
        files.append(io.BytesIO())
        PHOTO.save(files[-1], "JPEG", quality=quality)
    first, second = (file.getvalue() for file in files)
    start = first.index(b"\xff\xdb")
    segment = first[start : start + 2 + int.from_bytes(first[start + 2 : start + 4])]
    at = second.index(b"\xff\xdb")
    assert jpeg_quality(second[:at] + segment + second[at:]) == 60


@pytest.mark.parametrize("filling", [b"\xff\xfe\x00\x02", b"\xff\x01", b"\xff"])
def test_heads_without_end_are_given_up(filling):
    """16 MB of empty comments, of markers without length, of filling bytes: a server must not read all of them."""
    file = io.BytesIO(b"\xff\xd8" + filling * (2**24 // len(filling)))
    assert jpeg_quality(file) is None
    assert file.tell() < 100_000


def test_what_is_no_jpeg_has_no_quality():
    file = io.BytesIO()
    PHOTO.save(file, "JPEG", quality=60)
    whole = file.getvalue()
    for data in (
        b"",
        b"\xff\xd8",
        b"\x89PNG\r\n",
        b"\xff\xd8\xff\xdb\x00\x01",
        whole[:30],
        b"\xff\xd8\xff\xe0\xff\xff",
    ):
        assert jpeg_quality(data) is None
    assert jpeg_quality(whole[:400]) == 60, "the head is enough"
