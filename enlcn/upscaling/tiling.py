"""Tiles of an image, each with as much of its surroundings as convolutions need."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Tile:
    """Rows top..bottom and columns left..right of an image of height x width."""

    top: int
    bottom: int
    left: int
    right: int
    height: int
    width: int

    def grown(self, halo: int) -> "Tile":
        """The tile with `halo` pixels more on every side, as far as the image goes."""
        return Tile(
            max(0, self.top - halo),
            min(self.height, self.bottom + halo),
            max(0, self.left - halo),
            min(self.width, self.right + halo),
            self.height,
            self.width,
        )

    def crop(self, x: Tensor, grown: "Tile", scale: int = 1) -> Tensor:
        """This tile out of features (..., H, W) of the grown one, at `scale` pixels per pixel."""
        top, left = (self.top - grown.top) * scale, (self.left - grown.left) * scale
        return x[
            ...,
            top : top + (self.bottom - self.top) * scale,
            left : left + (self.right - self.left) * scale,
        ]


def tiles(height: int, width: int, side: int) -> Iterator[Tile]:
    """The image cut into tiles of at most side x side, row by row."""
    for top in range(0, height, side):
        for left in range(0, width, side):
            yield Tile(top, min(top + side, height), left, min(left + side, width), height, width)


def count_tiles(height: int, width: int, side: int) -> int:
    """How many tiles `tiles` gives."""
    return -(-height // side) * -(-width // side)
