"""Colours under transparent pixels, from the visible ones around: what hides there neither shows nor makes edges.

Normalised convolution: with colours c, alpha a and a sum of Gaussians g, a narrow one and a faint wide one that takes
over where the narrow one ends, a hidden pixel becomes (g * (a c) + e m) / (g * a + e). Far from all that is visible,
only m is left, the mean colour. A pixel much fainter than its neighbours is hidden in part: few bits of its colour are
left, or it is that of a background it once stood on.

Axes: H rows, W columns, C channels.
"""

import numpy as np

from enlcn.upscaling.planes import NewPlane, Plane, strips
from enlcn.upscaling.tiling import tiles
from enlcn.upscaling.windows import around

SPREADS = ((1.0, 3, 1.0), (4.0, 12, 1e-2))  # standard deviation, radius in pixels and weight of each Gaussian
REACH = max(radius for _, radius, _ in SPREADS)
_SIDE = 512  # of what is filled at once: about 30 MB
_MEAN_WEIGHT = 1e-6  # e: hardly more than a faint pixel at the end of the widest Gaussian
_FAINT = 0.25  # of the largest alpha next to it: from here on a pixel's own colour is all that counts


def filled(pixels: Plane, alpha: Plane, dtype: np.dtype, new_plane: NewPlane) -> Plane:
    """pixels (H, W, C) with other colours where alpha (H, W, 1) hides theirs, and to the bit as they are elsewhere."""
    result = new_plane(pixels.height, pixels.width, pixels.channels, dtype)
    mean = _mean_colour(pixels, alpha)
    for tile in tiles(pixels.height, pixels.width, _SIDE):
        wider = tile.grown(REACH)
        box = (wider.top, wider.bottom, wider.left, wider.right)
        rows = slice(tile.top - wider.top, tile.bottom - wider.top)
        columns = slice(tile.left - wider.left, tile.right - wider.left)
        colours, shares = pixels.read(*box), alpha.read(*box)
        own, part = trust(shares)[rows, columns], colours[rows, columns]
        if own.min() < 1:
            mixed = own * part + (1 - own) * _spread(colours, shares, mean)[rows, columns]
            rounded = np.minimum(mixed + np.float32(0.5), np.iinfo(dtype).max).astype(dtype)  # never past the largest
            part = np.where(own < 1, rounded, part)
        result.write(tile.top, tile.left, part)
    return result


def trust(alpha: np.ndarray) -> np.ndarray:
    """How much of a pixel's own colour is taken: 0 where it is hidden, 1 where it is seen; (H, W, 1), float32."""
    enough = around(alpha, 1, np.maximum) * np.float32(_FAINT)
    return np.minimum(1, alpha / np.maximum(enough, np.float32(_FAINT)))


def _spread(colours: np.ndarray, alpha: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """The normalised convolution, float32 (H, W, C), in the range of `colours`."""
    shares = alpha.astype(np.float32) / np.float32(np.iinfo(alpha.dtype).max)
    weighted = np.concatenate([colours * shares, shares], axis=-1)
    total = sum(weight * _blurred(weighted, deviation, radius) for deviation, radius, weight in SPREADS)
    assert isinstance(total, np.ndarray)
    rest = np.float32(_MEAN_WEIGHT)
    result: np.ndarray = (total[..., :-1] + rest * mean) / (total[..., -1:] + rest)
    return result


def _blurred(values: np.ndarray, deviation: float, radius: int) -> np.ndarray:
    """values (H, W, C) under a Gaussian that is 1 at its middle; nothing lies beyond the border."""
    for axis in (0, 1):
        length = values.shape[axis]
        result = values.copy()
        for step in range(1, min(radius, length - 1) + 1):
            weight = np.float32(np.exp(-(step**2) / (2 * deviation**2)))
            front, back = ((slice(None),) * axis + (part,) for part in (slice(None, -step), slice(step, None)))
            result[front] += weight * values[back]
            result[back] += weight * values[front]
        values = result
    return values


def _mean_colour(pixels: Plane, alpha: Plane) -> np.ndarray:
    """The mean of all colours weighted by alpha, (C,) float32, summed in integers: the same for any strips."""
    total, weight = np.zeros(pixels.channels, np.uint64), 0
    for top, bottom in strips(pixels):
        shares = alpha.read(top, bottom, 0, alpha.width).astype(np.uint64)
        total += (pixels.read(top, bottom, 0, pixels.width) * shares).sum(axis=(0, 1))
        weight += int(shares.sum())
    return (total / max(weight, 1)).astype(np.float32)
