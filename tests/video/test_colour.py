"""YUV <-> RGB against the formulas of ITU-R BT.601, 709 and 2020."""

import av
import numpy as np
import pytest

from enlcn.video.colour import from_rgb, to_rgb
from enlcn.video.probe import Colour

KR_KB = {1: (0.2126, 0.0722), 6: (0.299, 0.114), 5: (0.299, 0.114), 7: (0.212, 0.087), 9: (0.2627, 0.0593)}


def rgb_by_formula(yuv, colour, bits):
    """RGB in [0, 1] of samples (Y, Cb, Cr)."""
    kr, kb = KR_KB[colour.matrix]
    y, cb, cr = (float(value) for value in yuv)
    unit = 1 << (bits - 8)
    if colour.range == 2:
        top = (1 << bits) - 1
        y, cb, cr = y / top, (cb - 128 * unit) / top, (cr - 128 * unit) / top
    else:
        y, cb, cr = (y - 16 * unit) / (219 * unit), (cb - 128 * unit) / (224 * unit), (cr - 128 * unit) / (224 * unit)
    red, blue = y + 2 * (1 - kr) * cr, y + 2 * (1 - kb) * cb
    return np.array([red, (y - kr * red - kb * blue) / (1 - kr - kb), blue])


def flat(pixel_format, yuv, bits):
    frame = av.VideoFrame(32, 16, pixel_format)
    dtype = np.uint8 if bits == 8 else np.uint16
    for plane, value in zip(frame.planes, yuv, strict=True):
        plane.update(np.full(plane.buffer_size // np.dtype(dtype).itemsize, value, dtype).tobytes())
    return frame


@pytest.mark.parametrize("span", [1, 2], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", KR_KB)
@pytest.mark.parametrize(
    ("pixel_format", "bits"), [("yuv420p", 8), ("yuv444p", 8), ("yuv420p10le", 10), ("yuv444p12le", 12)]
)
def test_both_ways(pixel_format, bits, matrix, span):
    colour = Colour(matrix, span, 2, 2)
    yuv = [value << (bits - 8) for value in (120, 100, 146)]
    frame = flat(pixel_format, yuv, bits)
    frame.colorspace, frame.color_range = 2, 0  # what `colour` says counts, not what the frame says
    rgb = to_rgb(frame, 16, 32, colour)
    assert rgb.shape == (16, 32, 3)
    assert rgb.dtype == (np.uint8 if bits == 8 else np.uint16)
    step = 1  # of 255 for 8 bits, of 65535 for more
    expected = rgb_by_formula(yuv, colour, bits) * np.iinfo(rgb.dtype).max
    assert np.abs(rgb.astype(float) - expected).max() <= step
    back = from_rgb(rgb, pixel_format, colour)
    assert (back.colorspace in (matrix, 6), back.color_range, back.format.name) == (True, span, pixel_format)
    for plane, value in zip(back.planes, yuv, strict=True):
        samples = np.frombuffer(plane, rgb.dtype).reshape(plane.height, -1)[:, : plane.width]
        assert np.abs(samples.astype(int) - value).max() <= 1
