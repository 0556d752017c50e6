"""Where a picture is wholly transparent or wholly opaque, so is its result, to the last bit.

Networks give nearly 0 for 0: an alpha of 1 of 255 far from anything, a white background of 254. Nobody sees it, but
programs that trim transparent borders do.

Axes: H rows, W columns of the input, C channels, s scale.
"""

import numpy as np

from enlcn.upscaling.planes import Plane, strips

REACH = 2  # of bicubic interpolation, in pixels of the input: further away nothing is mixed


def hold_extremes(alpha: Plane, result: Plane, scale: int, *, clear: np.ndarray, opaque: np.ndarray | None) -> None:
    """Write `clear` where all input pixels within REACH are transparent, and `opaque` where all are opaque.

    Args:
        alpha: of the input, (H, W, 1).
        result: (s H, s W, C), changed in place.
        scale: s.
        clear, opaque: (C,) each; None leaves the opaque parts as they are.
    """
    for top, bottom in strips(alpha):
        first, last = max(0, top - REACH), min(alpha.height, bottom + REACH)
        around = alpha.read(first, last, 0, alpha.width)[..., 0]
        inside = slice(top - first, bottom - first)
        largest = np.iinfo(around.dtype).max
        is_clear = _everywhere(around == 0)[inside]
        is_opaque = _everywhere(around == largest)[inside]
        if not is_clear.any() and (opaque is None or not is_opaque.any()):
            continue
        part = result.read(top * scale, bottom * scale, 0, result.width)
        part[_enlarged(is_clear, scale)] = clear
        if opaque is not None:
            part[_enlarged(is_opaque, scale)] = opaque
        result.write(top * scale, 0, part)


def _everywhere(mask: np.ndarray) -> np.ndarray:
    """Whether it holds for all pixels within REACH; beyond the border nothing contradicts. (H, W) -> (H, W)."""
    for axis in (0, 1):
        padding = [(REACH, REACH) if each == axis else (0, 0) for each in (0, 1)]
        padded = np.pad(mask, padding, constant_values=True)
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * REACH + 1, axis=axis)
        mask = np.asarray(windows.all(axis=-1))
    return mask


def _enlarged(mask: np.ndarray, scale: int) -> np.ndarray:
    """(H, W) -> (s H, s W)."""
    return mask.repeat(scale, axis=0).repeat(scale, axis=1)
