"""YCbCr in TIFF files: the colours that other programs see, whoever reads and however it is compressed."""

import struct

import numpy as np
import pytest
from PIL import Image as PillowImage

from enlcn.data.image import UnsupportedImageError
from enlcn.data.image_io import load_image
from enlcn.data.tiff_ycbcr import ycbcr_of_tiff
from enlcn.data.vips_stream import ImageStream

RED = (76, 85, 255)  # Y, Cb, Cr
_SHORT, _LONG, _RATIONAL = 3, 4, 5


def tiff(pixels: bytes, *, big: bool = False, order: str = "<", bits: int = 8, **more) -> bytes:
    """A TIFF of 4x4 uncompressed YCbCr samples; `more` are fields by their tag (t530=...)."""
    fields = {256: (_SHORT, [4]), 257: (_SHORT, [4]), 258: (_SHORT, [bits] * 3), 259: (_SHORT, [1]), 262: (_SHORT, [6])}
    fields |= {277: (_SHORT, [3]), 278: (_SHORT, [4]), 279: (_LONG, [len(pixels)]), 284: (_SHORT, [1]), 273: (4, [0])}
    fields |= {int(tag[1:]): field for tag, field in more.items()}
    entry, inline, word, count = (20, 8, "Q", "Q") if big else (12, 4, "I", "H")
    first = 16 if big else 8
    beyond = first + struct.calcsize(order + count) + entry * len(fields) + inline
    packed = {tag: struct.pack(f"{order}{len(v)}{'HII'[kind - 3]}", *v) for tag, (kind, v) in fields.items()}
    long = b"".join(value for tag, value in sorted(packed.items()) if len(value) > inline)
    packed[273] = struct.pack(f"{order}I", beyond + len(long))
    directory = struct.pack(order + count, len(fields))
    for tag, (kind, values) in sorted(fields.items()):
        value = packed[tag]
        if len(value) > inline:
            place, value = beyond, struct.pack(order + word, beyond)
            beyond = place + len(packed[tag])
        number = len(values) // (2 if kind == _RATIONAL else 1)
        directory += struct.pack(f"{order}HH{word}", tag, kind, number) + value.ljust(inline, b"\0")
    mark = b"II" if order == "<" else b"MM"
    head = struct.pack(f"{order}HHHQ", 43, 8, 0, 16) if big else struct.pack(f"{order}HI", 42, 8)
    return mark + head + directory + bytes(inline) + long + pixels


def streamed(path) -> np.ndarray:
    return np.concatenate([part for _, _, part, _ in ImageStream(path).strips()])


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "jpeg"])
def test_colours_are_those_of_the_photo(photo, tmp_path, codec, compression):
    path = tmp_path / "ycc.tif"
    PillowImage.fromarray(photo).convert("YCbCr").save(path, compression=compression)
    off = 12 if compression == "jpeg" else 2  # on average, and of three roundings
    assert np.abs(load_image(path).pixels.astype(int) - photo).mean() < off
    if codec == "vips":
        assert np.array_equal(streamed(path), load_image(path).pixels)


@pytest.mark.parametrize(("big", "order"), [(False, "<"), (False, ">"), (True, "<"), (True, ">")])
def test_whichever_kind_of_tiff(tmp_path, big, order):
    pytest.importorskip("pyvips")
    path = tmp_path / "red.tif"
    path.write_bytes(tiff(bytes(RED) * 16, big=big, order=order, t530=(_SHORT, [1, 1])))
    for read in (load_image(path).pixels, streamed(path)):
        assert np.abs(read.astype(int) - (254, 0, 0)).max() <= 1


def test_black_and_white_of_video_levels(tmp_path):
    pytest.importorskip("pyvips")
    levels = (_RATIONAL, [16, 1, 235, 1, 128, 1, 240, 1, 128, 1, 240, 1])
    path = tmp_path / "levels.tif"
    path.write_bytes(tiff(bytes((235, 128, 128, 16, 128, 128)) * 8, t530=(_SHORT, [1, 1]), t532=levels))
    assert load_image(path).pixels[0, :2].tolist() == [[255] * 3, [0] * 3]


def test_shared_colour_differences(tmp_path, codec):
    """As they lie where a file does not tell: of 2x2 pixels. Pillow cannot read these."""
    path = tmp_path / "shared.tif"
    path.write_bytes(tiff((bytes(RED[:1]) * 4 + bytes(RED[1:])) * 4))
    if codec == "pillow":
        with pytest.raises(UnsupportedImageError, match="its YCbCr colours are not read in this form; convert it"):
            load_image(path)
        return
    assert load_image(path).alpha is None
    assert np.abs(load_image(path).pixels.astype(int) - (254, 0, 0)).max() <= 1
    assert np.array_equal(streamed(path), load_image(path).pixels)


def test_16_bits_are_refused_in_words(tmp_path):
    pytest.importorskip("pyvips")
    path = tmp_path / "deep.tif"
    path.write_bytes(tiff(bytes(96), bits=16, t530=(_SHORT, [1, 1])))
    for read in (load_image, ImageStream):
        with pytest.raises(UnsupportedImageError, match="its YCbCr colours are not read in this form; convert it to"):
            read(path)


def test_other_files_are_left_alone(tmp_path):
    for mode, compression in (("RGB", None), ("YCbCr", "jpeg"), ("L", None), ("CMYK", "tiff_lzw")):
        PillowImage.new(mode, (8, 8)).save(tmp_path / "a.tif", compression=compression)
        assert ycbcr_of_tiff(tmp_path / "a.tif") is None
    assert ycbcr_of_tiff(b"II*\0") is None
