"""Files in, files out: what must survive, both codecs, oracles outside (Pillow, tifffile, bytes made by hand)."""

import io
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import ExifTags, ImageCms, ImageOps
from PIL import Image as PillowImage

from enlcn.data.image_io import Image, ImageError, encode_image, load_image, save_image
from tests.data.image_samples import (
    ORIENTATIONS,
    adobe_rgb_profile,
    exif_block,
    png_chunk,
    png_chunks,
    png_file,
    stored_for,
)

RNG = np.random.default_rng(0)
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rating>5</rating></x:xmpmeta>'


def noise(bands: int, bits: int = 8, height: int = 23, width: int = 34) -> np.ndarray:
    return RNG.integers(0, 2**bits, (height, width, bands)).astype(np.uint8 if bits == 8 else np.uint16)


def image_of(planes: np.ndarray, **metadata) -> Image:
    has_alpha = planes.shape[2] in (2, 4)
    pixels, alpha = (planes[..., :-1], planes[..., -1]) if has_alpha else (planes, None)
    return Image(pixels, alpha, **metadata)


def pillow_bytes(picture: PillowImage.Image, format: str, **options) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


LOSSLESS = [(codec, format) for codec in ("vips", "pillow") for format in ("png", "tiff", "webp", "avif")]
LOSSLESS.remove(("pillow", "avif"))  # Pillow writes no lossless AVIF


@pytest.mark.parametrize(("codec", "format"), LOSSLESS, indirect=["codec"])
@pytest.mark.parametrize("bands", [1, 2, 3, 4])
def test_lossless_formats_return_the_same_pixels(format, bands, codec):
    planes = noise(bands)
    loaded = load_image(encode_image(image_of(planes), format, lossless=True))
    if bands < 3 and format in ("webp", "avif"):  # they have no grey
        planes = np.concatenate([planes[..., :1]] * 3 + [planes[..., 1:]], axis=2)
    assert loaded.planes().dtype == np.uint8
    assert np.array_equal(loaded.planes(), planes)


@pytest.mark.parametrize("format", ["png", "tiff"])
@pytest.mark.parametrize("bands", [1, 2, 3, 4])
def test_16_bits_survive(format, bands):
    planes = noise(bands, bits=16)
    loaded = load_image(encode_image(image_of(planes), format))
    assert loaded.bits == 16
    assert np.array_equal(loaded.planes(), planes)


def test_avif_keeps_12_of_16_bits_and_white_stays_white(caplog):
    planes = noise(3, bits=16)
    planes[0], planes[1] = 65535, 0
    loaded = load_image(encode_image(image_of(planes), "avif", lossless=True))
    assert "rounded from 16" in caplog.text
    assert loaded.bits == 16
    assert loaded.pixels[0].min() == 65535
    assert loaded.pixels[1].max() == 0
    assert np.abs(loaded.pixels.astype(int) - planes).max() < 2**4


def test_16_bit_adobe_rgb_rotated_png_with_alpha_goes_through_load_and_save(tmp_path):
    planes, profile = noise(4, bits=16), adobe_rgb_profile()
    source, target = tmp_path / "in.png", tmp_path / "out.png"
    source.write_bytes(png_file(stored_for(planes, 6), icc=profile, exif=exif_block(6)))

    image = load_image(source)
    save_image(image, target)

    assert np.array_equal(image.pixels, planes[..., :3])
    assert np.array_equal(image.alpha, planes[..., 3])
    chunks = png_chunks(target.read_bytes())
    width, height, depth, colour_type = np.frombuffer(chunks[b"IHDR"], ">u4,>u4,u1,u1", count=1)[0]
    assert (width, height, depth, colour_type) == (34, 23, 16, 6)
    assert load_image(target).icc == profile
    written = PillowImage.open(target)
    assert written.info["icc_profile"] == profile
    exif = written.getexif()
    assert exif[0x0112] == 1
    assert exif[0x010F] == "Camera Maker"
    assert exif[0x013B] == "A. Photographer"
    assert exif.get_ifd(0x8769)[0x9003] == "2021:02:03 04:05:06"
    assert np.array_equal(load_image(target).planes(), planes)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_orientation_is_applied_once(orientation, order, codec):
    planes = noise(3)
    data = png_file(stored_for(planes, orientation), exif=exif_block(orientation, order))
    assert np.array_equal(np.asarray(ImageOps.exif_transpose(PillowImage.open(io.BytesIO(data)))), planes)
    image = load_image(data)
    assert np.array_equal(image.pixels, planes)
    again = load_image(encode_image(image, "png"))
    assert np.array_equal(again.pixels, planes)
    assert PillowImage.open(io.BytesIO(encode_image(image, "png"))).getexif()[0x0112] == 1


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("format", ["JPEG", "WEBP", "TIFF"])
def test_orientation_in_other_formats_agrees_with_pillow(format, orientation, codec):
    exif = PillowImage.Exif()
    exif[0x0112] = orientation
    options = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}, "TIFF": {}}[format]
    data = pillow_bytes(PillowImage.fromarray(noise(3)), format, exif=exif, **options)
    oracle = np.asarray(ImageOps.exif_transpose(PillowImage.open(io.BytesIO(data)).convert("RGB")))
    assert np.array_equal(load_image(data).pixels, oracle)


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_thumbnail_that_is_turned_is_let_go(orientation, codec):
    """As a camera writes it: a second directory with a small JPEG of its own. Upright, it may stay."""
    small = pillow_bytes(PillowImage.new("RGB", (16, 12), "red"), "JPEG")
    first = struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 26)
    second = struct.pack("<HHHIIHHIII", 2, 0x0201, 4, 1, 56, 0x0202, 4, 1, len(small), 0)
    block = b"II*\0" + struct.pack("<I", 8) + first + second + small
    data = pillow_bytes(PillowImage.fromarray(noise(3)), "JPEG", quality=95, exif=b"Exif\0\0" + block)
    written = PillowImage.open(io.BytesIO(encode_image(load_image(data), "jpeg")))
    assert bool(written.getexif().get_ifd(ExifTags.IFD.IFD1)) == (orientation == 1)
    assert written.getexif()[0x0112] == 1


@pytest.mark.parametrize("format", ["png", "jpeg", "webp", "avif", "tiff"])
def test_profile_and_metadata_survive(format, codec):
    profile, exif = adobe_rgb_profile(), exif_block(1)
    image = image_of(noise(3), icc=profile, exif=exif, xmp=XMP, dpi=(300.0, 300.0))
    loaded = load_image(encode_image(image, format))
    assert loaded.icc == profile
    if format not in ("webp", "avif"):
        assert loaded.dpi == pytest.approx((300, 300), rel=1e-4)
    if (codec, format) not in (("pillow", "png"), ("pillow", "tiff")):
        assert loaded.xmp.strip() == XMP
    again = PillowImage.Exif()
    again.load(loaded.exif)
    assert again[0x010F] == "Camera Maker"
    assert again.get_ifd(0x8769)[0x9003] == "2021:02:03 04:05:06"


@pytest.mark.parametrize("source", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_no_resolution_is_invented_and_no_exif(source, codec):
    image = load_image(pillow_bytes(PillowImage.fromarray(noise(3)), source))
    assert image.dpi is None
    assert image.exif is None
    for format in ("png", "webp", "avif", "tiff"):
        written = PillowImage.open(io.BytesIO(encode_image(image, format)))
        assert len(written.getexif()) == 0 or format == "tiff", format
        # libvips writes no PNG or TIFF without a resolution: then the one that is assumed anyway.
        assert written.info.get("dpi") in (None, (1, 1)) or round(written.info["dpi"][0]) == 72, format


@pytest.mark.parametrize(("source", "dpi"), [("PNG", 25.4), ("TIFF", 25.4), ("PNG", 72), ("TIFF", 72), ("JPEG", 72)])
def test_a_resolution_that_is_told_is_kept_though_it_look_untold(source, dpi):
    image = load_image(pillow_bytes(PillowImage.fromarray(noise(3)), source, dpi=(dpi, dpi)))
    assert image.dpi == pytest.approx((dpi, dpi), rel=1e-3)
    written = PillowImage.open(io.BytesIO(encode_image(image, "png")))
    assert written.info["dpi"] == pytest.approx((dpi, dpi), rel=1e-3)


@pytest.mark.parametrize("format", ["png", "jpeg", "webp", "avif", "tiff"])
def test_resolution_survives_without_exif(format, codec):
    written = PillowImage.open(io.BytesIO(encode_image(image_of(noise(3), dpi=(300.0, 300.0)), format)))
    told = written.info.get("dpi") or (written.getexif().get(0x011A),)
    if codec == "pillow" and format in ("webp", "avif"):
        assert told[0] is None, "Pillow writes none there; if it does now, say so here"
    else:
        assert float(told[0]) == pytest.approx(300, rel=1e-3)


def test_lossy_formats_stay_close_at_their_default_quality(photo, codec):
    for format in ("jpeg", "webp", "avif"):
        loaded = load_image(encode_image(Image(photo), format))
        error = np.abs(loaded.pixels.astype(float) - photo).mean()
        assert error < 3.5, format
        small, large = (len(encode_image(Image(photo), format, quality=q)) for q in (30, 90))
        assert small < large


@pytest.mark.parametrize("format", ["PNG", "AVIF", "WEBP"])
def test_of_animations_the_first_frame_is_read_and_that_is_told(format, caplog):
    frames = [PillowImage.new("RGB", (24, 16), colour) for colour in ("red", "blue")]
    moving = pillow_bytes(frames[0], format, save_all=True, append_images=frames[1:], duration=100)
    assert load_image(moving).pixels[0, 0].argmax() == 0
    assert "only" in caplog.text
    assert "first" in caplog.text
    caplog.clear()
    load_image(pillow_bytes(frames[0], format))
    assert not caplog.text


def test_grey_stays_grey(codec):
    for format in ("png", "jpeg", "tiff"):
        assert load_image(encode_image(Image(noise(1)), format)).is_grey, format


def test_palette_with_transparency_becomes_rgb_and_alpha(codec):
    palette = PillowImage.fromarray(RNG.integers(0, 4, (9, 8)).astype(np.uint8), "P")
    palette.putpalette(list(range(12)) + [0] * 756)
    data = pillow_bytes(palette, "PNG", transparency=2)
    oracle = np.asarray(PillowImage.open(io.BytesIO(data)).convert("RGBA"))
    assert np.array_equal(load_image(data).planes(), oracle)
    opaque = pillow_bytes(palette, "PNG")
    assert load_image(opaque).alpha is None
    assert not load_image(opaque).is_grey


def test_one_bit_and_bmp(codec):
    bits = PillowImage.fromarray(noise(1)[..., 0] > 127)
    for format in ("PNG", "TIFF", "BMP"):
        loaded = load_image(pillow_bytes(bits, format))
        assert set(np.unique(loaded.pixels)) == {0, 255}, format
    colour = noise(3)
    assert np.array_equal(load_image(pillow_bytes(PillowImage.fromarray(colour), "BMP")).pixels, colour)


@pytest.fixture(scope="session")
def cmyk_profile() -> bytes:
    """The press profile that libvips brings along."""
    pyvips = pytest.importorskip("pyvips")
    white = pyvips.Image.black(1, 1, bands=3).copy(interpretation="srgb")
    return white.icc_transform("cmyk", embedded=False, input_profile="srgb").get("icc-profile-data")


@pytest.mark.parametrize("format", ["JPEG", "TIFF"])
def test_cmyk_goes_through_its_profile(format, cmyk_profile, codec, photo):
    profile = cmyk_profile
    srgb = ImageCms.createProfile("sRGB")
    press = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    cmyk = ImageCms.profileToProfile(PillowImage.fromarray(photo), srgb, press, outputMode="CMYK")
    data = pillow_bytes(cmyk, format, icc_profile=profile)
    stored = PillowImage.open(io.BytesIO(data))
    oracle = np.asarray(ImageCms.profileToProfile(stored, press, srgb, outputMode="RGB")).astype(float)
    loaded = load_image(data)
    assert not loaded.is_grey
    assert loaded.icc != profile
    assert ImageCms.ImageCmsProfile(io.BytesIO(loaded.icc)).profile.xcolor_space.strip() == "RGB"
    # libvips compensates the black point, which Pillow's conversion does not
    assert np.abs(loaded.pixels - oracle).mean() < (0.01 if codec == "pillow" else 12)


def test_cmyk_without_profile_is_still_read_and_told(codec, photo, caplog):
    data = pillow_bytes(PillowImage.fromarray(photo).convert("CMYK"), "JPEG", quality=95)
    assert load_image(data, name="press.jpg").pixels.shape == photo.shape
    assert "press.jpg: its CMYK becomes sRGB" in caplog.text


def test_exif_of_a_tiff_has_the_size_it_has_now(codec):
    exif = PillowImage.Exif()
    exif.get_ifd(ExifTags.IFD.Exif).update(
        {ExifTags.Base.ExifImageWidth: 8, ExifTags.Base.ExifImageHeight: 6, 0x9286: b"x"}
    )
    block = exif.tobytes().removeprefix(b"Exif\0\0")
    written = PillowImage.open(io.BytesIO(encode_image(image_of(noise(3), exif=block), "tiff")))
    details = written.getexif().get_ifd(ExifTags.IFD.Exif)
    assert (details[ExifTags.Base.ExifImageWidth], details[ExifTags.Base.ExifImageHeight]) == (34, 23)
    assert details[0x9286] == b"x"


def test_tiff_kinds_that_have_no_place_are_refused_by_name(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    for kind, array in {
        "float": RNG.random((8, 9), np.float32),
        "int": np.zeros((8, 9), np.int32),
        "wide": np.zeros((8, 9, 7), np.uint8),
    }.items():
        path = tmp_path / f"{kind}.tif"
        tifffile.imwrite(path, array, photometric="minisblack", planarconfig="contig")
        with pytest.raises(ImageError, match=f"{kind}.tif: has"):
            load_image(path)


def test_big_endian_and_tiled_tiff():
    tifffile = pytest.importorskip("tifffile")
    planes = noise(3, bits=16, height=70, width=50)
    for options in ({"byteorder": ">"}, {"tile": (32, 32)}, {"compression": "zlib"}, {"bigtiff": True}):
        buffer = io.BytesIO()
        tifffile.imwrite(buffer, planes, photometric="rgb", **options)
        assert np.array_equal(load_image(buffer.getvalue()).pixels, planes), options


def test_pillow_says_that_it_cuts_16_bits(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "pyvips", None)
    planes = noise(3, bits=16)
    image = load_image(png_file(planes), name="deep.png")
    assert "deep.png: read as 8 bits" in caplog.text
    assert np.abs(image.pixels.astype(int) - planes // 257).max() <= 1
    with pytest.raises(ImageError, match="needs pyvips"):
        encode_image(image_of(planes), "png")


def test_one_pixel_is_an_image(codec):
    for format in ("png", "jpeg", "webp", "avif", "tiff"):
        data = encode_image(Image(np.full((1, 1, 3), 77, np.uint8)), format)
        assert abs(int(load_image(data).pixels[0, 0, 1]) - 77) <= 3


def test_sources_may_be_paths_bytes_or_files(tmp_path):
    planes = noise(3)
    path = tmp_path / "wrong_suffix.jpg"
    path.write_bytes(png_file(planes))
    for source in (path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes())):
        assert np.array_equal(load_image(source).pixels, planes)
    with path.open("rb") as file:
        assert np.array_equal(load_image(file).pixels, planes)


def test_unknown_png_chunks_and_trailing_bytes_do_no_harm(codec):
    planes = noise(3)
    data = png_file(planes)
    extended = data[:33] + png_chunk(b"teST", b"hello") + data[33:] + b"trailing"
    assert np.array_equal(load_image(extended).pixels, planes)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_torch_takes_what_was_loaded(orientation):
    image = load_image(png_file(stored_for(noise(4, bits=16), orientation), exif=exif_block(orientation)))
    assert torch.from_numpy(image.pixels).shape == (23, 34, 3)
    assert torch.from_numpy(image.alpha).shape == (23, 34)


def test_lab_becomes_srgb(photo):
    pyvips = pytest.importorskip("pyvips")
    source = pyvips.Image.new_from_array(photo).copy(interpretation="srgb")
    loaded = load_image(source.colourspace("lab").tiffsave_buffer())
    assert loaded.pixels.dtype == np.uint8
    assert np.abs(loaded.pixels.astype(int) - photo).max() <= 2


def test_pyvips_is_imported_on_first_use_only():
    code = "import enlcn.data.image_io, sys; sys.exit('pyvips' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
