"""Texts in PNG files: as Pillow, which knows them by itself, writes and reads them."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image as PillowImage
from PIL.PngImagePlugin import PngInfo

from enlcn.data import vips_codec
from enlcn.data.image_io import load_image, save_image
from enlcn.data.png_text import add_texts_to_png_file, png_with_texts, texts_of_png, texts_of_png_file
from enlcn.upscaling import upscale

TEXTS = {"parameters": "a cat, steps: 20\nseed 1", "Title": "Schönbrunn — ☺", "Comment": "again and " * 40}


def picture(size=(12, 10)):
    """A PNG file with a text of each kind, XMP and an old form of EXIF."""
    info = PngInfo()
    info.add_text("parameters", TEXTS["parameters"])
    info.add_itxt("Title", TEXTS["Title"], lang="de", tkey="Titel")
    info.add_text("Comment", TEXTS["Comment"], zip=True)
    info.add_itxt("XML:com.adobe.xmp", "<x:xmpmeta xmlns:x='adobe:ns:meta/'/>")
    info.add_text("Raw profile type exif", "\nexif\n 6\n457869660000\n")
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)
    PillowImage.fromarray(pixels).save(buffer, "png", pnginfo=info)
    return buffer.getvalue()


def read(source):
    """All texts of a PNG file by another reader."""
    with PillowImage.open(io.BytesIO(source) if isinstance(source, bytes) else source) as opened:
        opened.load()  # also what follows the pixels
        return opened.text


@pytest.mark.parametrize("codec", ["vips", "pillow"])
def test_texts_survive_to_the_letter(tmp_path, monkeypatch, codec):
    if codec == "pillow":
        monkeypatch.setattr(vips_codec, "is_available", lambda format: False)
    save_image(load_image(picture()), tmp_path / "out.png")
    found = read(tmp_path / "out.png")
    assert {name: found[name] for name in TEXTS} == TEXTS
    assert (found["Title"].lang, found["Title"].tkey) == ("de", "Titel")
    assert "Raw profile type exif" not in found
    assert list(found).count("XML:com.adobe.xmp") <= 1


def test_texts_survive_upscaling(tmp_path):
    (tmp_path / "in.png").write_bytes(picture())
    result = upscale(load_image(tmp_path / "in.png"), model="untrained:enlcn-tiny-x2")
    save_image(result, tmp_path / "out.png")
    assert {name: read(tmp_path / "out.png")[name] for name in TEXTS} == TEXTS


def test_other_formats_are_written_without(tmp_path):
    for suffix in ("jpg", "webp", "tif"):
        save_image(load_image(picture()), tmp_path / f"out.{suffix}")
        assert load_image(tmp_path / f"out.{suffix}").png_texts == b""


def test_files_on_disk_as_in_memory(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(picture())
    assert texts_of_png_file(path) == texts_of_png(picture()) != b""
    plain = io.BytesIO()
    PillowImage.new("L", (3, 3)).save(plain, "png")
    path.write_bytes(plain.getvalue())
    add_texts_to_png_file(path, texts_of_png(picture()))
    assert path.read_bytes() == png_with_texts(plain.getvalue(), texts_of_png(picture()))
    assert read(path) == TEXTS


def test_damaged_texts_are_left_out():
    whole = picture()
    start = whole.index(b"tEXtparameters")
    damaged = whole[: start + 20] + bytes([whole[start + 20] ^ 1]) + whole[start + 21 :]
    assert b"parameters" not in texts_of_png(damaged)
    longer = struct.pack(">I", 2**31 - 1)
    assert texts_of_png(whole[: start - 4] + longer + whole[start:]) == b""
    for length in (0, 5, 8, 12, 40, start + 3, len(whole) - 5):
        texts_of_png(whole[:length])  # no exception
    assert texts_of_png(b"GIF89a" + whole) == b""
    assert zlib.crc32(b"IEND") == int.from_bytes(whole[-4:], "big")


def test_a_file_that_does_not_end_as_png_does_stays_as_it_is(tmp_path):
    assert png_with_texts(b"something else", b"texts") == b"something else"
    (tmp_path / "a.png").write_bytes(b"something else, and long enough")
    add_texts_to_png_file(tmp_path / "a.png", b"texts")
    assert (tmp_path / "a.png").read_bytes() == b"something else, and long enough"
