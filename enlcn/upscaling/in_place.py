"""Replacing a plane tile by tile while tiles still to come need what was there before, around their edges.

Tiles come row by row. What a tile overwrites and a later one needs is kept: the last rows above, across the whole
width, and the last columns to the left.
"""

import numpy as np

from enlcn.upscaling.planes import Plane
from enlcn.upscaling.tiling import Tile


class InPlace:
    """Reads old content with a halo and writes new content, over one raster scan of tiles."""

    def __init__(self, plane: Plane, halo: int):
        self._plane = plane
        self._halo = halo
        self._above: np.ndarray | None = None  # (<= halo, W, C): old rows right above the current row of tiles
        self._next_above: list[np.ndarray] = []  # pieces of the same for the next row of tiles, left to right
        self._left: np.ndarray | None = None  # (h, <= halo, C): old columns right before the current tile
        self._current: np.ndarray | None = None  # (h, w, C): old content of the current tile

    def read(self, tile: Tile) -> np.ndarray:
        """The old content of the grown tile, (h, w, C); tiles must come in raster order, each then written."""
        if tile.left == 0:
            if tile.top > 0:
                self._above = np.concatenate(self._next_above, axis=1)
            self._next_above, self._left = [], None
        grown = tile.grown(self._halo)
        plane = self._plane
        middle = plane.read(tile.top, tile.bottom, tile.left, grown.right)
        self._current = middle[:, : tile.right - tile.left]
        if self._left is not None:
            middle = np.concatenate([self._left, middle], axis=1)
        parts = [middle]
        if self._above is not None and grown.top < tile.top:
            parts.insert(0, self._above[grown.top - tile.top :, grown.left : grown.right])
        if grown.bottom > tile.bottom:
            parts.append(plane.read(tile.bottom, grown.bottom, grown.left, grown.right))
        return np.concatenate(parts, axis=0)

    def write(self, tile: Tile, content: np.ndarray) -> None:
        """Replace the tile just read by `content` (h, w, C)."""
        assert self._current is not None, "a tile is read before it is written"
        if self._halo:
            columns = self._current if self._left is None else np.concatenate([self._left, self._current], axis=1)
            self._left = columns[:, -self._halo :].copy()
            rows = self._current
            if self._above is not None:
                rows = np.concatenate([self._above[:, tile.left : tile.right], rows], axis=0)
            self._next_above.append(rows[-self._halo :].copy())
        else:
            self._next_above.append(self._current[:0])
        self._plane.write(tile.top, tile.left, content)
        self._current = None
