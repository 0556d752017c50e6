"""Near transparency, a result stays within what its input shows there: no rims, no ghost lines.

Networks sharpen by overshooting. In a photograph that passes for detail; on the flat colours and edges of a cut-out it
is a line that was not there, and an alpha of 1 far from anything keeps programs from trimming transparent borders.

Axes: H rows, W columns of the input, h rows, w columns of the result, C channels.
"""

import math

import numpy as np

from enlcn.upscaling.filling import trust
from enlcn.upscaling.planes import Plane, strips
from enlcn.upscaling.windows import around

# In pixels of the input, from the one that a pixel of the result lies in.
ALPHA_REACH = 1  # more lets lines beside edges stand, less takes sharpness from edges
COLOUR_REACH = 2  # of bicubic interpolation


def hold_alpha(alpha: Plane, result: Plane) -> None:
    """Keep an upscaled alpha (h, w, 1), in place, between the smallest and largest of alpha (H, W, 1) around.

    Lines of less than a pixel, such as thin letters, are fainter in the input than they are: near them it may go beyond
    by as much as they stand out.
    """
    reach = _reach(ALPHA_REACH, alpha, result)
    for top, bottom in strips(result):
        rows = _Rows(alpha, result, top, bottom, reach + 1)  # whether a pixel stands out depends on its neighbours
        shares = rows.read(alpha)
        largest, values = np.iinfo(shares.dtype).max, shares.astype(np.int32)
        low = around(values, reach, np.minimum) - around(_standing_out(-values), reach, np.maximum)
        high = around(values, reach, np.maximum) + around(_standing_out(values), reach, np.maximum)
        limits = (rows.enlarged(limit.clip(0, largest).astype(shares.dtype)) for limit in (low, high))
        result.write(top, 0, result.read(top, bottom, 0, result.width).clip(*limits))


def hold_colours(pixels: Plane, alpha: Plane, filled: Plane, result: Plane) -> None:
    """Keep upscaled colours, in place, within those of visible pixels around, where some around are not opaque.

    Where all are seen, if faintly, they may go beyond that range by its width: detail is kept, and so is a flat colour.

    Args:
        pixels: of the input, (H, W, C).
        alpha: of the input, (H, W, 1).
        filled: `pixels` with hidden ones filled, (H, W, C): what is written where nothing around is visible.
        result: (h, w, C), of the same type.
    """
    reach = _reach(COLOUR_REACH, pixels, result)
    for top, bottom in strips(result):
        rows = _Rows(pixels, result, top, bottom, reach + 1)  # how visible a pixel is depends on its neighbours
        shares = rows.read(alpha)
        largest = np.iinfo(shares.dtype).max
        near = around(shares < largest, reach, np.maximum)
        if not near.any():
            continue
        colours, fill = rows.read(pixels), rows.read(filled)
        low = around(np.where(shares > 0, colours, largest), reach, np.minimum)
        high = around(np.where(shares > 0, colours, 0), reach, np.maximum)
        nothing = around(shares, reach, np.maximum) == 0
        low, high = np.where(nothing, fill, low).astype(np.int32), np.where(nothing, fill, high).astype(np.int32)
        spare = np.where(around(trust(shares) < 1, reach, np.maximum), 0, high - low)
        low, high = np.where(near, low - spare, 0).clip(0), np.where(near, high + spare, largest).clip(max=largest)
        limits = (rows.enlarged(limit.astype(colours.dtype)) for limit in (low, high))
        result.write(top, 0, result.read(top, bottom, 0, result.width).clip(*limits))


def _standing_out(values: np.ndarray) -> np.ndarray:
    """By how much each value is larger than both beside it, or both above and below it; 0 where it is not."""
    rows = np.pad(values, ((1, 1), (0, 0), (0, 0)), mode="edge")
    columns = np.pad(values, ((0, 0), (1, 1), (0, 0)), mode="edge")
    beside = np.minimum(np.maximum(rows[:-2], rows[2:]), np.maximum(columns[:, :-2], columns[:, 2:]))
    return (values - beside).clip(0)


def _reach(reach: int, source: Plane, result: Plane) -> int:
    """So many pixels, or as many as one of a smaller result covers."""
    return max(reach, math.ceil(source.height / result.height), math.ceil(source.width / result.width))


class _Rows:
    """The input's rows that rows top..bottom of a result lie in, with `reach` more around."""

    def __init__(self, source: Plane, result: Plane, top: int, bottom: int, reach: int):
        rows = _nearest(np.arange(top, bottom), source.height, result.height)
        self._top, self._bottom = max(0, int(rows[0]) - reach), min(source.height, int(rows[-1]) + reach + 1)
        self._rows = rows - self._top
        self._columns = _nearest(np.arange(result.width), source.width, result.width)

    def read(self, plane: Plane) -> np.ndarray:
        """Them, of a plane of the input."""
        return plane.read(self._top, self._bottom, 0, plane.width)

    def enlarged(self, values: np.ndarray) -> np.ndarray:
        """Each pixel of the result gets the value of the one it lies in."""
        return values[self._rows].take(self._columns, axis=1)


def _nearest(places: np.ndarray, source: int, result: int) -> np.ndarray:
    """Which of `source` pixels in a row the middle of each place among `result` pixels lies in."""
    return (2 * places + 1) * source // (2 * result)
