"""The smallest and the largest values around each pixel.

Axes: H rows, W columns; more may follow.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np

Pick = Callable[[np.ndarray, np.ndarray], np.ndarray]  # np.minimum or np.maximum


def around(array: np.ndarray, radius: int, pick: Pick) -> np.ndarray:
    """What `pick` chooses of all pixels at most `radius` rows and columns away. (H, W, ...) -> (H, W, ...).

    >>> around(np.array([[0, 0, 5, 0, 0]]), 1, np.maximum)
    array([[0, 5, 5, 5, 0]])
    """
    for axis in (0, 1):
        padding = [(radius, radius) if each == axis else (0, 0) for each in range(array.ndim)]
        padded = np.pad(array, padding, mode="edge")  # repeated pixels are neither smaller nor larger
        shifts = [_cut(padded, axis, start, array.shape[axis]) for start in range(2 * radius + 1)]
        array = reduce(pick, shifts)
    return array


def _cut(array: np.ndarray, axis: int, start: int, length: int) -> np.ndarray:
    return array[(*[slice(None)] * axis, slice(start, start + length))]
