"""Every bad file ends in one line that names it; nothing half-written is left behind."""

import io
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image as PillowImage

from enlcn.data import vips_codec, vips_errors
from enlcn.data.image import UnsupportedImageError
from enlcn.data.image_io import Image, ImageError, check_format_fits, encode_image, load_image, save_image
from enlcn.data.vips_stream import ImageStream
from enlcn.errors import UserError
from tests.data.image_samples import png_chunk, png_file

FORMATS = ["png", "jpeg", "webp", "avif", "tiff"]


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    from skimage.data import astronaut

    return {format: encode_image(Image(astronaut()[::2, ::2]), format) for format in FORMATS}


def refusal(path, **options) -> str:
    """The message with which a file is refused: one line that starts with its name."""
    with pytest.raises(ImageError) as caught:
        load_image(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message


def header_only_png(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(b"\0" * 100))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kept", [0.02, 0.3, 0.7, 0.98])
def test_truncated_files(format, kept, files, tmp_path, codec, capfd):
    path = tmp_path / f"cut.{format}"
    path.write_bytes(files[format][: int(kept * len(files[format]))])
    refusal(path)
    assert capfd.readouterr().err == ""


def test_a_reason_that_is_not_told_is_left_out(files, tmp_path):
    pytest.importorskip("pyvips")
    path = tmp_path / "cut.png"
    path.write_bytes(files["png"][:40])
    assert refusal(path) == f"{path}: damaged or truncated PNG file"


@pytest.mark.parametrize("format", ["png", "avif"])
def test_damaged_files(format, files, tmp_path, codec, capfd):
    data = bytearray(files[format])
    data[len(data) // 2] ^= 0xFF
    data[len(data) // 2 + 1] ^= 0xFF
    path = tmp_path / f"damaged.{format}"
    path.write_bytes(data)
    if (format, codec) != ("avif", "pillow"):  # that decoder does not notice this one
        assert "damaged" in refusal(path)
    assert capfd.readouterr().err == ""


def test_jpeg_with_a_hole_is_an_error_and_does_not_colour_the_next_message(files, tmp_path):
    data = files["jpeg"]
    path = tmp_path / "hole.jpg"
    path.write_bytes(data[: len(data) // 2] + data[len(data) // 2 + 2000 :])
    assert "Corrupt JPEG data" in refusal(path)
    other = tmp_path / "other.png"
    other.write_bytes(files["png"][:2000])
    assert "JPEG" not in refusal(other)


@pytest.mark.parametrize("layout", [{}, {"tile": (64, 64)}, {"rowsperstrip": 8}, {"compression": "zlib"}])
@pytest.mark.parametrize("kept", [0.3, 0.98])
def test_truncated_tiff_whose_directory_comes_first(layout, kept, tmp_path, codec):
    import tifffile
    from skimage.data import astronaut

    buffer = io.BytesIO()
    tifffile.imwrite(buffer, astronaut(), photometric="rgb", **layout)
    assert load_image(buffer.getvalue()).width == 512
    path = tmp_path / "cut.tif"
    path.write_bytes(buffer.getvalue()[: int(kept * len(buffer.getvalue()))])
    refusal(path)


def test_harmless_irregularities_are_overlooked(files):
    jpeg = files["jpeg"]
    second = 4 + int.from_bytes(jpeg[4:6], "big")
    assert load_image(jpeg[:second] + b"abc" + jpeg[second:]).width == 256  # junk before the second marker
    assert load_image(jpeg + b"trailing").width == 256
    tiff = bytearray(files["tiff"])
    (directory,) = struct.unpack_from("<I", tiff, 4)
    (entries,) = struct.unpack_from("<H", tiff, directory)
    last = directory + 2 + 12 * (entries - 1)
    tiff[last - 12 : last + 12] = tiff[last : last + 12] + tiff[last - 12 : last]  # tags out of order
    assert load_image(bytes(tiff)).width == 256


def test_files_that_are_no_images(tmp_path, codec):
    assert "no such file" in refusal(tmp_path / "missing.png")
    assert "directory" in refusal(tmp_path)
    for name, data in {
        "empty.png": b"",
        "text.png": b"hello, world\n" * 100,
        "zeros.jpg": bytes(1000),
        "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "only_magic.png": b"\x89PNG\r\n\x1a\n",
        "only_magic.tif": b"II*\0",
        "only_magic.jpg": b"\xff\xd8\xff",
        "only_magic.webp": b"RIFF\0\0\0\0WEBP",
        "only_magic.avif": b"\0\0\0\x18ftypavif",
        "only_magic.bmp": b"BM",
        "zero_width.png": header_only_png(0, 5),
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        refusal(path)


def test_decompression_bombs_are_refused_from_their_header(tmp_path, codec):
    path = tmp_path / "bomb.png"
    path.write_bytes(header_only_png(60_000, 60_000))
    assert "pixels" in refusal(path)
    path.write_bytes(png_file(np.zeros((20, 30, 3), np.uint8)))
    assert "30x20 is 600 pixels, more than the limit of 599" in refusal(path, max_pixels=599)
    assert load_image(path, max_pixels=600).width == 30


def test_lab_of_8_bits_is_refused_by_name(tmp_path, codec):
    path = tmp_path / "lab.tif"
    PillowImage.new("LAB", (8, 6)).save(path)
    assert refusal(path) == f"{path}: its Lab colours are not read in this form; convert it to RGB"
    with pytest.raises(UnsupportedImageError):
        load_image(path)
    if codec == "vips":
        with pytest.raises(UnsupportedImageError):
            ImageStream(path)


def test_a_compression_that_is_not_built_in_is_no_damage(tmp_path, files):
    pytest.importorskip("pyvips")
    path = tmp_path / "zstd.tif"
    PillowImage.new("RGB", (8, 6)).save(path, compression="zstd")
    told = f"{path}: its ZSTD compression is not read here; save it with LZW or Deflate"
    with pytest.raises(UnsupportedImageError) as caught:
        load_image(path)
    assert str(caught.value) == told
    with pytest.raises(UnsupportedImageError) as caught:
        list(ImageStream(path).strips())
    assert str(caught.value) == told
    for text in (
        "tiff2vips: WEBP compression support is not configured.",
        "tiff2vips: LERC compression is not configured",
        "tiff2vips: SGILog compression is not supported",
    ):
        assert isinstance(vips_errors.unreadable(text, "tiff", "a.tif"), UnsupportedImageError)
    assert not isinstance(vips_errors.unreadable("tiff2vips: read error", "tiff", "a.tif"), UnsupportedImageError)


def test_endless_files_are_not_read_to_their_end():
    class Endless(io.RawIOBase):
        name = "endless"

        def read(self, size=-1):
            assert 0 <= size < 2**30
            return bytes(size)

    with pytest.raises(ImageError, match="endless: the file has more than"):
        load_image(Endless(), max_pixels=1000)


def test_names_of_uploads_appear_in_errors():
    with pytest.raises(ImageError, match=r"^holiday\.jpg: the file is empty"):
        load_image(b"", name="holiday.jpg")


def test_existing_files_are_kept_unless_told(tmp_path):
    path = tmp_path / "a.png"
    save_image(Image(np.zeros((4, 4, 3), np.uint8)), path)
    before = path.read_bytes()
    white = Image(np.full((4, 4, 3), 255, np.uint8))
    with pytest.raises(UserError, match=r"a\.png: exists"):
        save_image(white, path)
    assert path.read_bytes() == before
    save_image(white, path, overwrite=True)
    assert load_image(path).pixels.min() == 255


def test_a_failed_save_leaves_nothing(tmp_path, monkeypatch):
    def full_disk(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full_disk)
    with pytest.raises(UserError, match=r"new/a\.png: cannot be written \(No space left"):
        save_image(Image(np.zeros((4, 4, 3), np.uint8)), tmp_path / "new" / "a.png")
    assert list((tmp_path / "new").iterdir()) == []


def test_what_a_format_cannot_hold_is_said(tmp_path):
    image = Image(np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4), np.uint8))
    with pytest.raises(ImageError, match=r"a\.jpg: JPEG cannot hold transparency; write PNG"):
        save_image(image, tmp_path / "a.jpg")
    opaque = Image(image.pixels, np.full((4, 4), 255, np.uint8))
    assert load_image(save_image(opaque, tmp_path / "opaque.jpg")).alpha is None
    for name in ("a.gif", "a", "a.bmp"):
        with pytest.raises(ImageError, match=r"choose from \.png"):
            save_image(image, tmp_path / name)
    with pytest.raises(ImageError, match="no lossless mode"):
        encode_image(opaque, "jpeg", lossless=True)
    with pytest.raises(UserError, match="between 1 and 100"):
        encode_image(opaque, "jpeg", quality=0)
    with pytest.raises(ImageError, match="unknown format 'gif'"):
        encode_image(opaque, "gif")


@pytest.mark.parametrize(("format", "limit"), [("jpeg", 65_500), ("webp", 16_383), ("avif", 16_384)])
def test_size_limits_are_those_of_the_encoders(format, limit):
    largest = Image(np.zeros((8, limit, 3), np.uint8))
    assert load_image(encode_image(largest, format)).width == limit
    check_format_fits(format, limit, limit)
    with pytest.raises(ImageError, match="write PNG or TIFF instead"):
        check_format_fits(format, 8, limit + 1)
    with pytest.raises(ImageError, match="write PNG or TIFF instead"):
        encode_image(Image(np.zeros((8, limit + 1, 3), np.uint8)), format)
    for unlimited in ("png", "tiff"):
        check_format_fits(unlimited, 10**6, 10**6)


def test_an_image_of_the_wrong_kind_is_refused():
    for pixels in (np.zeros((4, 4)), np.zeros((4, 4, 2), np.uint8), np.zeros((4, 4, 3)), np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(ValueError, match="pixels must be"):
            Image(pixels)
    with pytest.raises(ValueError, match="alpha"):
        Image(np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5), np.uint8))


def test_pillow_sees_what_was_written(tmp_path, codec):
    path = save_image(Image(np.full((5, 6, 3), 99, np.uint8)), tmp_path / "deep" / "er" / "a.webp", lossless=True)
    assert np.array_equal(np.asarray(PillowImage.open(path)), np.full((5, 6, 3), 99))


def test_no_two_threads_read_at_a_time(files, monkeypatch):
    """libvips has one place for what went wrong: a second reader would clear what the first has to tell by."""
    read, free = vips_codec._read_pixels, []

    def watched(*args):
        with ThreadPoolExecutor(1) as other:
            free.append(other.submit(vips_codec.READING.acquire, blocking=False).result())
        return read(*args)

    monkeypatch.setattr(vips_codec, "_read_pixels", watched)
    load_image(files["jpeg"])
    assert free == [False]
    assert vips_codec.READING.acquire(blocking=False)
    vips_codec.READING.release()
