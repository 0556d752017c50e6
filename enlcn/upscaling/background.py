"""Transparent pictures on a colour: for formats that hold no alpha, and in one run of the network instead of two.

Axes: H rows, W columns, C = 1 or 3 channels.
"""

import re
from dataclasses import replace

import numpy as np

from enlcn.data.image import Image, matching_profile
from enlcn.errors import UserError
from enlcn.upscaling.planes import MemoryPlane, NewPlane, Plane, in_memory, strips

Colour = tuple[float, float, float]  # red, green, blue in [0, 1]
NAMED: dict[str, Colour] = {"white": (1, 1, 1), "black": (0, 0, 0), "grey": (0.5, 0.5, 0.5)}
_SPELLINGS = {"gray": "grey"}


def parse_colour(text: str) -> Colour:
    """A colour by its name, or as #rrggbb or #rgb.

    >>> parse_colour("#ff0000")
    (1.0, 0.0, 0.0)
    """
    name = _SPELLINGS.get(text.lower(), text.lower())
    if name in NAMED:
        return NAMED[name]
    digits = text.removeprefix("#")
    if re.fullmatch(r"[0-9a-fA-F]{3}", digits):
        digits = "".join(2 * digit for digit in digits)
    if not re.fullmatch(r"[0-9a-fA-F]{6}", digits):
        raise UserError(f"'{text}' is no colour known here; give {', '.join(NAMED)}, or #rrggbb")
    red, green, blue = (int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4))
    return red, green, blue


def on_colour(image: Image, colour: Colour) -> Image:
    """The image over a colour of its own colour space, without alpha; one without alpha as it is."""
    if image.alpha is None:
        return image
    planes = MemoryPlane(image.pixels), MemoryPlane(image.alpha[..., None])
    flat = flattened(*planes, colour, image.pixels.dtype, in_memory)
    assert isinstance(flat, MemoryPlane)
    return replace(image, pixels=flat.array, alpha=None, icc=matching_profile(image.icc, flat.array))


def flattened(pixels: Plane, alpha: Plane, colour: Colour, dtype: np.dtype, new_plane: NewPlane) -> Plane:
    """pixels (H, W, C) over a colour, as alpha (H, W, 1) says; grey ones become RGB where the colour is not grey."""
    is_coloured = len(set(colour)) > 1
    result = new_plane(pixels.height, pixels.width, 3 if is_coloured else pixels.channels, dtype)
    behind = colour_values(colour, result.channels, dtype)
    for top, bottom in strips(pixels):
        where = (top, bottom, 0, pixels.width)
        share = alpha.read(*where).astype(np.float32) / np.float32(np.iinfo(dtype).max)
        blended = pixels.read(*where) * share + behind * (1 - share)
        result.write(top, 0, (blended + 0.5).astype(dtype))
    return result


def colour_values(colour: Colour, channels: int, dtype: np.dtype) -> np.ndarray:
    """A colour as it is stored, (C,) float32; for one channel it must be grey."""
    return np.array(colour[:channels], np.float32) * np.float32(np.iinfo(dtype).max)
