"""Transparent pictures on a colour: for formats that hold no alpha, and in one run of the network instead of two.

Axes: H rows, W columns, C = 1 or 3 channels.
"""

import re
from dataclasses import replace

import numpy as np

from enlcn.data.image import Image
from enlcn.errors import UserError
from enlcn.upscaling.planes import MemoryPlane, Plane

Colour = tuple[float, float, float]  # red, green, blue in [0, 1]
NAMED: dict[str, Colour] = {"white": (1, 1, 1), "black": (0, 0, 0), "grey": (0.5, 0.5, 0.5)}
_LUMA = (0.299, 0.587, 0.114)
_PIXELS_AT_A_TIME = 1 << 20


def parse_colour(text: str) -> Colour:
    """A colour by its name, or as #rrggbb or #rgb.

    >>> parse_colour("#ff0000")
    (1.0, 0.0, 0.0)
    """
    if text.lower() in NAMED:
        return NAMED[text.lower()]
    digits = text.removeprefix("#")
    if re.fullmatch(r"[0-9a-fA-F]{3}", digits):
        digits = "".join(2 * digit for digit in digits)
    if not re.fullmatch(r"[0-9a-fA-F]{6}", digits):
        raise UserError(f"'{text}' is no colour; give {', '.join(NAMED)}, or #rrggbb")
    red, green, blue = (int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4))
    return red, green, blue


def on_colour(image: Image, colour: Colour) -> Image:
    """The image over a colour, without alpha; one without alpha as it is."""
    if image.alpha is None:
        return image
    flat = MemoryPlane(np.empty_like(image.pixels))
    blend(MemoryPlane(image.pixels), MemoryPlane(image.alpha[..., None]), colour, flat)
    return replace(image, pixels=flat.array, alpha=None)


def blend(pixels: Plane, alpha: Plane, colour: Colour, result: Plane) -> None:
    """Write pixels (H, W, C) over a colour into `result`, as alpha (H, W, 1) says; grey is put on the colour's grey."""
    grey = sum(share * part for share, part in zip(_LUMA, colour, strict=True))
    behind = np.array(colour if pixels.channels == 3 else (grey,), np.float32)
    rows = max(1, _PIXELS_AT_A_TIME // pixels.width)
    for top in range(0, pixels.height, rows):
        where = (top, min(top + rows, pixels.height), 0, pixels.width)
        part = pixels.read(*where)
        largest = np.float32(np.iinfo(part.dtype).max)
        share = alpha.read(*where).astype(np.float32) / largest
        blended = part * share + behind * largest * (1 - share)
        result.write(top, 0, (blended + 0.5).astype(part.dtype))
