"""Which crops a training step sees: a pure function of (seed, step), see `counter_random`.

A process of several takes its share of that step's samples, so the global batch does not depend on how many there are.

Axes: B batch, K candidates for each sample, I images, p side of an LR crop, s scale.
"""

import logging
from dataclasses import dataclass

import torch
from torch import Tensor

from enlcn.data.batch import BatchConfig
from enlcn.data.counter_random import uniform
from enlcn.data.rescaling import longest_span, span
from enlcn.data.shards import PackedImages
from enlcn.data.shrinking import MARGIN
from enlcn.errors import UserError

log = logging.getLogger(__name__)
_NUMBERS_PER_SAMPLE = 4  # image, row, column; symmetry, colours and factor
_NUM_SYMMETRIES = 8
_COLOUR_ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))


@dataclass(frozen=True)
class Sampling(BatchConfig):
    """The batches of a process among others.

    Attributes:
        seed: of the draws.
        rank, world_size: which share of the batch this process takes.
    """

    seed: int = 0
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size % self.world_size:
            raise UserError(f"a batch of {self.batch_size} cannot be shared evenly by {self.world_size} processes")

    @property
    def local_batch(self) -> int:
        """Samples of this process."""
        return self.batch_size // self.world_size

    @property
    def margin(self) -> int:
        """LR pixels around a crop that it is made of, too."""
        return MARGIN if self.any_offset else 0

    @property
    def side(self) -> int:
        """Of a crop with its margin, in LR pixels."""
        return self.crop + 2 * self.margin


@dataclass(frozen=True)
class Crops:
    """Where each sample, or candidate, comes from, and how it is turned; (B,) or (BK,) each.

    Attributes:
        image: index.
        top, left: where what it is made of begins, its margin included, in HR pixels.
        factor: that its photograph is shrunk by.
        transpose, flip_rows, flip_columns: its symmetry.
        colours: the order of its colours, 0 for the usual one.
    """

    image: Tensor
    top: Tensor
    left: Tensor
    transpose: Tensor
    flip_rows: Tensor
    flip_columns: Tensor
    colours: Tensor
    factor: Tensor

    def take(self, which: Tensor) -> "Crops":
        """Those numbered by `which`."""
        return Crops(**{name: values[which] for name, values in vars(self).items()})


@dataclass(frozen=True)
class ImageTable:
    """Size and place of every image that is large enough, (I,) int64 each.

    `share_ends` is the running sum of what images are drawn in proportion to: LR areas, or 1 each. Sizes and places are
    those of LR; HR's are s times as large. `longest_side` of all is in HR pixels. `colour_orders` (6, 3) stands by on
    the same device.
    """

    scale: int
    longest_side: int
    heights: Tensor
    widths: Tensor
    offsets: Tensor
    share_ends: Tensor
    colour_orders: Tensor

    @staticmethod
    def of(images: PackedImages, sampling: Sampling, device: torch.device) -> "ImageTable":
        """The table of the images that hold at least one crop."""
        needed = sampling.side * images.scale
        if sampling.rescales:
            needed = longest_span(needed, 1.0)
        large_enough = torch.minimum(images.heights, images.widths) * images.scale >= needed
        if not large_enough.any():
            raise UserError(f"none of the {len(images.names)} images is as large as one crop, {needed}x{needed} pixels")
        small = [name for name, large in zip(images.names, large_enough.tolist(), strict=True) if not large]
        if small:
            log.warning("left out, being smaller than one crop: %s", ", ".join(small))
        heights, widths = images.heights[large_enough], images.widths[large_enough]
        areas = heights * widths
        shares = areas if sampling.by_area else torch.ones_like(areas)
        columns = heights, widths, images.offsets[large_enough], shares.cumsum(0), torch.tensor(_COLOUR_ORDERS)
        longest_side = images.scale * int(torch.maximum(heights, widths).max())
        return ImageTable(images.scale, longest_side, *(column.to(device) for column in columns))


def choose_crops(table: ImageTable, sampling: Sampling, step: Tensor) -> Crops:
    """All candidates of this process at `step` (a scalar int64 tensor, whose device does the work), (BK,)."""
    sample = sample_numbers(sampling, step, sampling.candidates)
    numbers = torch.arange(_NUMBERS_PER_SAMPLE, device=step.device).unsqueeze(1)
    draws = uniform(sampling.seed, sample * _NUMBERS_PER_SAMPLE + numbers)  # (4, B)

    place = (draws[0] * table.share_ends[-1]).long()
    image = torch.searchsorted(table.share_ends, place, right=True)
    turn = draws[3] * (_NUM_SYMMETRIES * len(_COLOUR_ORDERS))
    symmetry = turn.long() // len(_COLOUR_ORDERS) * sampling.augment
    colours = turn.long() % len(_COLOUR_ORDERS) * sampling.swap_colours
    sizes = table.scale * table.heights[image], table.scale * table.widths[image]
    side, grid = table.scale * sampling.side, 1 if sampling.any_offset else table.scale
    factor, window = torch.ones_like(turn), torch.full_like(image, side)
    if sampling.rescales:
        factor = _draw_factors(turn.frac(), sampling.smallest_factor, side, torch.minimum(*sizes))
        window = span(side, factor)
    # They begin at multiples of the grid, wherever there is room.
    top, left = (
        grid * (draw * ((size - window) // grid + 1)).long() for draw, size in zip(draws[1:3], sizes, strict=True)
    )
    transpose, flip_rows, flip_columns = ((symmetry >> bit & 1).bool() for bit in range(3))
    return Crops(image, top, left, transpose, flip_rows, flip_columns, colours, factor)


def sample_numbers(sampling: Sampling, step: Tensor, each: int = 1) -> Tensor:
    """Numbers of this process's samples at `step` among those of the whole run, `each` for every sample, (each B,)."""
    first, count = (each * samples for samples in (sampling.rank * sampling.local_batch, sampling.local_batch))
    return torch.arange(first, first + count, device=step.device) + step * sampling.batch_size * each


def _draw_factors(draw: Tensor, smallest: float, side: int, shorter: Tensor) -> Tensor:
    """1 for half of them; for the others a number from `smallest`, or the smallest their image has room for, to 1."""
    lowest = (longest_span(side, 1.0) / shorter).clamp(smallest, 1.0)
    return torch.where(draw < 0.5, 1.0, lowest + (1 - lowest) * (2 * draw - 1))
