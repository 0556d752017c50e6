"""Where a picture put on a colour is wholly transparent, its result is of that colour to the last bit.

Networks give nearly white for white, 254 of 255. Nobody sees it, but programs that trim borders do.

Axes: H rows, W columns of the input, C channels, s scale.
"""

import numpy as np

from enlcn.upscaling.planes import Plane, strips
from enlcn.upscaling.windows import around

REACH = 2  # of bicubic interpolation, in pixels of the input: further away nothing is mixed


def hold_clear(alpha: Plane, result: Plane, scale: int, colour: np.ndarray) -> None:
    """Write `colour` where all input pixels within REACH are transparent.

    Args:
        alpha: of the input, (H, W, 1).
        result: (s H, s W, C), changed in place.
        scale: s.
        colour: (C,).
    """
    for top, bottom in strips(alpha):
        first, last = max(0, top - REACH), min(alpha.height, bottom + REACH)
        is_seen = alpha.read(first, last, 0, alpha.width)[..., 0] > 0
        is_clear = ~around(is_seen, REACH, np.maximum)[top - first : bottom - first]
        if not is_clear.any():
            continue
        part = result.read(top * scale, bottom * scale, 0, result.width)
        part[is_clear.repeat(scale, axis=0).repeat(scale, axis=1)] = colour
        result.write(top * scale, 0, part)
