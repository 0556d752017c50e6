"""Self-ensemble: the image upscaled in its eight orientations, the results averaged.

Works on readers and writers of tiles, so that it is the same for whole images and streams.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from enlcn.upscaling.streaming import EmitSR, ReadLR
from enlcn.upscaling.tiling import Tile


@dataclass(frozen=True)
class Orientation:
    """Transpose, then flip rows, then flip columns."""

    transpose: bool = False
    flip_rows: bool = False
    flip_columns: bool = False

    def turn(self, x: Tensor) -> Tensor:
        """An image (..., H, W) in this orientation."""
        x = x.mT if self.transpose else x
        flips = [axis for axis, wanted in ((-2, self.flip_rows), (-1, self.flip_columns)) if wanted]
        return x.flip(flips) if flips else x

    def turn_back(self, x: Tensor) -> Tensor:
        """The inverse of `turn`."""
        flips = [axis for axis, wanted in ((-2, self.flip_rows), (-1, self.flip_columns)) if wanted]
        x = x.flip(flips) if flips else x
        return x.mT if self.transpose else x

    def origin(self, tile: Tile) -> Tile:
        """Where a tile of the turned image lies in the image as it was."""
        top, bottom, left, right = tile.top, tile.bottom, tile.left, tile.right
        if self.flip_rows:
            top, bottom = tile.height - bottom, tile.height - top
        if self.flip_columns:
            left, right = tile.width - right, tile.width - left
        if self.transpose:
            return Tile(left, right, top, bottom, tile.width, tile.height)
        return Tile(top, bottom, left, right, tile.height, tile.width)


def orientations() -> Iterator[Orientation]:
    """The eight ways to turn and flip an image, the unchanged one first."""
    for transpose in (False, True):
        for flip_rows in (False, True):
            for flip_columns in (False, True):
                yield Orientation(transpose, flip_rows, flip_columns)


def turned_reader(read_lr: ReadLR, orientation: Orientation) -> ReadLR:
    """Reads tiles of the turned image from the image as it is."""
    return lambda tile: orientation.turn(read_lr(orientation.origin(tile)))


def turned_writer(emit_sr: EmitSR, orientation: Orientation) -> EmitSR:
    """Writes tiles of the turned result to where they belong."""
    return lambda tile, sr: emit_sr(orientation.origin(tile), orientation.turn_back(sr))


def mean_over_turns(forward: Callable[[Tensor], Tensor], lr: Tensor) -> Tensor:
    """The mean of what `forward` makes of the eight orientations of lr (B, C, H, W), each turned back; float32."""
    return torch.stack([turn.turn_back(forward(turn.turn(lr)).float()) for turn in orientations()]).mean(0)
