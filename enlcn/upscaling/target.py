"""The size that is wanted of a picture."""

import math
from dataclasses import dataclass

from enlcn.errors import UserError

_LARGEST_SIDE = 2**31 - 1


@dataclass(frozen=True)
class Target:
    """A scale, or a width or height in pixels with the other in proportion.

    Attributes:
        scale: output over input, any number up to the largest trained scale.
        width, height: output size in pixels, instead.
    """

    scale: float | None = None
    width: int | None = None
    height: int | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.scale, self.width, self.height) if value is not None]
        if any(value <= 0 or not math.isfinite(value) for value in given):
            raise UserError("scale, width and height must be positive numbers")
        if max(given, default=0) > _LARGEST_SIDE:
            raise UserError(
                f"scale, width and height must not be above {_LARGEST_SIDE:,}, the most pixels a file holds"
            )
        if not given:
            raise UserError("give a scale, a width or a height")
        if self.scale is not None and (self.width is not None or self.height is not None):
            raise UserError("give either a scale or a width and height")

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Output (height, width) for an input of height x width."""
        if self.scale is not None:
            return max(1, round(height * self.scale)), max(1, round(width * self.scale))
        if self.width is not None and self.height is not None:
            return self.height, self.width
        if self.width is not None:
            return max(1, round(height * self.width / width)), self.width
        assert self.height is not None
        return self.height, max(1, round(width * self.height / height))

    def factor(self, height: int, width: int) -> float:
        """By how much the picture grows, in the direction in which it grows more."""
        out_height, out_width = self.size(height, width)
        return max(out_height / height, out_width / width)
