"""Decoded pictures <-> RGB arrays, by the matrix and range that their tags name.

FFmpeg's scaler converts 8 bits, right to half a level. Its RGB of more bits has a white of its own (65283 of 65535), so
there it only resamples chroma and moves bits, and the matrices are applied here.
"""

from typing import Any

import numpy as np

from enlcn.video.probe import FULL, LIMITED, Colour
from enlcn.video.pyav import pyav

# K_R and K_B of each matrix, by its number in ITU-T H.273.
_LUMA = {
    1: (0.2126, 0.0722),
    4: (0.30, 0.11),
    5: (0.299, 0.114),
    6: (0.299, 0.114),
    7: (0.212, 0.087),
    9: (0.2627, 0.0593),
}
_TOP = 65535


def to_rgb(frame: Any, height: int, width: int, colour: Colour) -> np.ndarray:
    """RGB (H, W, 3) of a decoded picture: uint8 for samples of 8 bits, uint16 for more."""
    bits = max(component.bits for component in frame.format.components)
    if frame.format.is_rgb or bits == 8:
        if not frame.format.is_rgb:
            frame.colorspace, frame.color_range = colour.matrix, colour.range
        form = "rgb24" if bits == 8 else "rgb48le"
        array: np.ndarray = frame.reformat(width, height, form, interpolation=_careful()).to_ndarray()
        return array
    # Called limited whatever it is: then bits are shifted and nothing is stretched.
    frame.color_range = LIMITED
    wide = frame.reformat(width, height, "yuv444p16le", interpolation=_careful())
    return yuv_to_rgb(wide.to_ndarray(channel_last=True), colour, bits)


def from_rgb(array: np.ndarray, pixel_format: str, colour: Colour) -> Any:
    """A picture to encode, of RGB (H, W, 3) in uint8 or uint16, with all its colour tags."""
    av = pyav()
    if array.dtype == np.uint8:
        frame = av.VideoFrame.from_ndarray(array, format="rgb24")
        # What an RGB picture is tagged with is what its conversion is tagged with, and made by.
        frame.colorspace, frame.color_range = colour.matrix, colour.range
    else:
        bits = max(component.bits for component in av.VideoFormat(pixel_format).components)
        frame = av.VideoFrame.from_ndarray(rgb_to_yuv(array, colour, bits), format="yuv444p16le", channel_last=True)
        frame.color_range = LIMITED
    converted = frame.reformat(format=pixel_format, interpolation=_careful())
    converted.colorspace, converted.color_range = colour.matrix, colour.range
    converted.color_primaries, converted.color_trc = colour.primaries, colour.transfer
    return converted


def yuv_to_rgb(yuv: np.ndarray, colour: Colour, bits: int) -> np.ndarray:
    """RGB (H, W, 3) in [0, 65535] of Y, Cb, Cr (H, W, 3), uint16 with the `bits` that count on top."""
    kr, kb = _LUMA[colour.matrix]
    black, luma, chroma = _levels(colour, bits)
    y = (yuv[..., 0].astype(np.float32) - black) / luma
    cb, cr = ((yuv[..., index].astype(np.float32) - 32768) / chroma for index in (1, 2))
    red, blue = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return _rounded(np.stack([red, green, blue], axis=-1) * _TOP)


def rgb_to_yuv(rgb: np.ndarray, colour: Colour, bits: int) -> np.ndarray:
    """Y, Cb, Cr (H, W, 3), uint16 with the `bits` that count on top, of RGB (H, W, 3) in [0, 65535]."""
    kr, kb = _LUMA[colour.matrix]
    black, luma, chroma = _levels(colour, bits)
    red, green, blue = (rgb[..., index].astype(np.float32) / _TOP for index in range(3))
    y = kr * red + (1 - kr - kb) * green + kb * blue
    cb, cr = (blue - y) / (2 * (1 - kb)), (red - y) / (2 * (1 - kr))
    return _rounded(np.stack([y * luma + black, cb * chroma + 32768, cr * chroma + 32768], axis=-1))


def _levels(colour: Colour, bits: int) -> tuple[float, float, float]:
    """Black, white less black, and the span of chroma, of samples of `bits` bits on top of 16."""
    if colour.range == FULL:
        top = float(((1 << bits) - 1) << (16 - bits))
        return 0.0, top, top
    return 16.0 * 256, 219.0 * 256, 224.0 * 256


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.floor(values + 0.5).clip(0, _TOP).astype(np.uint16)


def _careful() -> int:
    """Chroma resampled by a cubic filter at full resolution, and rounding that is not hurried."""
    flags = pyav().video.reformatter.Interpolation
    return int(flags.BICUBIC | flags.FULL_CHR_H_INT | flags.FULL_CHR_H_INP | flags.ACCURATE_RND | flags.BITEXACT)
