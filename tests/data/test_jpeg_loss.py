"""What JPEG loses, against libjpeg."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import enlcn
from enlcn.data.jpeg_loss import JpegConstants, lose
from enlcn.data.jpeg_quality import jpeg_quality

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


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("quality", [5, 30, 50, 75, 90, 98])
def test_the_loss_is_libjpegs(quality, halved):
    """libjpeg computes in integers: what falls close to halfway between two steps may go the other way there."""
    original, theirs = as_tensor(PHOTO), through_libjpeg(PHOTO, quality, halved)
    ours = lose(original[None], torch.tensor([quality]), torch.tensor([halved]), CONSTANTS)[0]
    lost = rms(theirs, original)
    assert rms(ours, theirs) < max(0.25 * lost, 1.0)
    assert rms(ours, original) == pytest.approx(lost, rel=0.01, abs=0.03)
    others = (abs(rms(through_libjpeg(PHOTO, quality + by, halved), original) - lost) for by in (-3, 2))
    assert abs(rms(ours, original) - lost) < min(others), "as near to another quality"
    chroma = abs(rms(through_libjpeg(PHOTO, quality, not halved), theirs))
    assert rms(ours, theirs) < chroma / 2


def test_images_of_a_batch_have_nothing_to_do_with_each_other():
    originals = torch.stack([as_tensor(PHOTO), as_tensor(PHOTO).flip(2), as_tensor(PHOTO).flip(1)])
    quality, halved = torch.tensor([90, 10, 40]), torch.tensor([True, False, True])
    together = lose(originals, quality, halved, CONSTANTS)
    for at in range(3):
        alone = lose(originals[at : at + 1], quality[at : at + 1], halved[at : at + 1], CONSTANTS)
        assert torch.equal(together[at], alone[0])


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (17, 31), (16, 5)])
def test_odd_sizes(size):
    flat = torch.full((2, 3, *size), 77, dtype=torch.uint8)
    out = lose(flat, torch.tensor([50, 100]), torch.tensor([True, False]), CONSTANTS)
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


def test_tables_of_a_programs_own_have_the_quality_of_steps_as_long():
    file = io.BytesIO()
    PHOTO.save(file, "JPEG", qtables=[[6] * 64, [12] * 64])
    assert 85 <= jpeg_quality(file.getvalue()) <= 96


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
