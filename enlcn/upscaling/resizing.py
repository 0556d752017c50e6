"""From a trained scale to the size that was asked for: planes shrunk strip by strip, antialiased, in float32.

Axes: H rows, W columns, C channels.
"""

import numpy as np

from enlcn.data.resize import taps
from enlcn.upscaling.planes import Plane

_STRIP_ROWS = 64


def resize_plane(source: Plane, target: Plane, dtype: np.dtype) -> None:
    """Fill `target` with `source` resized to its size (bicubic, antialiased, as MATLAB's imresize).

    Args:
        source: (H, W, C), integers of any depth.
        target: (h, w, C), integers of `dtype`.
        dtype: np.uint8 or np.uint16.
    """
    down = taps(source.height, target.height, target.height / source.height, "bicubic", True, "mirror")
    across = taps(source.width, target.width, target.width / source.width, "bicubic", True, "mirror")
    for top in range(0, target.height, _STRIP_ROWS):
        index = down.index[top : top + _STRIP_ROWS]
        weight = down.weight[top : top + _STRIP_ROWS].astype(np.float32)
        first, last = int(index.min()), int(index.max()) + 1
        rows = source.read(first, last, 0, source.width)
        depth = float(np.iinfo(dtype).max) / float(np.iinfo(rows.dtype).max)
        strip = sum(
            weight[:, tap, None, None] * rows[index[:, tap] - first].astype(np.float32) for tap in range(index.shape[1])
        )
        assert isinstance(strip, np.ndarray)
        weights_across = across.weight.astype(np.float32)
        result = sum(
            weights_across[:, tap, None] * strip[:, across.index[:, tap]] for tap in range(across.index.shape[1])
        )
        assert isinstance(result, np.ndarray)
        rounded = np.floor(result * depth + 0.5).clip(0, np.iinfo(dtype).max)
        target.write(top, 0, rounded.astype(dtype))
