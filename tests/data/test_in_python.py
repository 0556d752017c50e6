"""`enlcn.save_image`: whatever `enlcn.upscale` gives back, read again by Pillow or as it was."""

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from PIL import ImageCms

import enlcn
from enlcn.data.image import Image
from enlcn.data.image_io import load_image
from enlcn.data.in_python import image_of_pil
from enlcn.errors import UserError

RNG = np.random.default_rng(2)
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def values(*shape, dtype=np.uint8):
    return RNG.integers(0, np.iinfo(dtype).max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 2), (5, 7, 3), (5, 7, 4)])
def test_arrays(tmp_path, dtype, shape):
    pytest.importorskip("pyvips")
    array = values(*shape, dtype=dtype)
    image = load_image(enlcn.save_image(array, tmp_path / "a.png"))
    assert np.array_equal(image.planes(), array.reshape(5, 7, -1))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_get_16_bits(tmp_path, dtype):
    pytest.importorskip("pyvips")
    array = RNG.random((5, 7, 3)).astype(dtype)
    image = load_image(enlcn.save_image(array, tmp_path / "a.png"))
    assert np.abs(image.pixels / 65535 - array).max() < 1e-5
    assert load_image(enlcn.save_image(array, tmp_path / "a.jpg")).bits == 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_tensors(tmp_path, dtype, channels):
    pytest.importorskip("pyvips")
    tensor = torch.rand(channels, 5, 7).to(dtype).requires_grad_()
    image = load_image(enlcn.save_image(tensor, tmp_path / "a.png"))
    expected = tensor.detach().double().permute(1, 2, 0).numpy()
    assert np.abs(image.planes() / 65535 - expected).max() < 1e-5


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16"])
def test_pil_images(tmp_path, mode):
    pytest.importorskip("pyvips")
    picture = (
        Pillow.fromarray(values(6, 9, 3)).convert(mode)
        if mode != "I;16"
        else Pillow.fromarray(values(6, 9, dtype=np.uint16))
    )
    saved = np.asarray(Pillow.open(enlcn.save_image(picture, tmp_path / "a.png")))
    shown = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB"}.get(mode, mode)
    assert np.array_equal(saved, np.asarray(picture if shown == mode else picture.convert(shown)))


def test_pil_images_keep_profile_and_metadata(tmp_path, codec):
    picture = Pillow.fromarray(values(6, 9, 3))
    exif = picture.getexif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    picture.info |= {"icc_profile": SRGB, "exif": exif.tobytes(), "dpi": (300, 300), "xmp": b"<x:xmpmeta/>"}
    image = load_image(enlcn.save_image(picture, tmp_path / "a.jpg", quality=90))
    assert (image.width, image.height) == (6, 9)
    assert image.icc == SRGB
    assert b"maker" in image.exif
    assert image.xmp == b"<x:xmpmeta/>"
    assert image.dpi == pytest.approx((300, 300), rel=1e-2)


def test_cmyk_with_a_profile_for_other_colours():
    picture = Pillow.fromarray(values(6, 9, 3)).convert("CMYK")
    plain = np.asarray(picture.convert("RGB"))
    for profile in (SRGB, b"damaged", SRGB[:16] + b"CMYK" + SRGB[20:], b""):
        picture.info["icc_profile"] = profile
        image = image_of_pil(picture)
        assert np.array_equal(image.pixels, plain)
        assert image.icc is None


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        ("a.png", "cannot save a str; give an array, a tensor, a PIL image or an Image"),
        (None, "cannot save a NoneType"),
        (np.zeros((3, 4, 5), np.uint8), r"an array must be \(H, W\) or \(H, W, 1 to 4\), not \(3, 4, 5\)"),
        (np.zeros((0, 4), np.uint8), "an array must be"),
        (np.zeros((3, 4), np.int32), "an array must be uint8, uint16 or float, not int32"),
        (
            np.full((3, 4), 1.4),
            r"floats must lie in \[0, 1\], these reach from 1.4 to 1.4; divide bytes by 255, or clip",
        ),
        (np.full((3, 4), np.nan), "floats must lie in"),
        (
            torch.zeros(3, 4, 5, dtype=torch.uint8),
            r"a tensor must be floats in \[0, 1\], not uint8; convert it, bytes by",
        ),
        (torch.zeros(2, 3, 4, 5), r"a tensor must be \(1 to 4, H, W\), not \(2, 3, 4, 5\)"),
        (Pillow.new("F", (3, 4)), "mode F has no fixed range"),
    ],
)
def test_all_else_is_refused_in_words(tmp_path, picture, told):
    with pytest.raises(UserError, match=told):
        enlcn.save_image(picture, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays_unless_python_says_so(tmp_path):
    path = enlcn.save_image(values(5, 7, 3), tmp_path / "a.png")
    with pytest.raises(UserError) as caught:
        enlcn.save_image(values(5, 7, 3), path)
    assert str(caught.value) == f"{path}: exists already; pass overwrite=True to replace it"
    new = values(5, 7, 3)
    assert np.array_equal(load_image(enlcn.save_image(Image(new), path, overwrite=True)).pixels, new)
    with pytest.raises(UserError, match=r"choose from \.png"):
        enlcn.save_image(new, tmp_path / "a.xyz")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        enlcn.save_image(new, tmp_path / "folder.png")
