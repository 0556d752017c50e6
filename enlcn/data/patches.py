"""Aligned LR/HR crops, flipped and rotated, gathered from flat buffers by one indexed read per batch.

Which crops a step sees is a pure function of (seed, step): see `counter_random`. A process of several takes its
share of that step's samples, so the global batch does not depend on how many there are. Of several candidates for a
sample the one with most detail is taken: skies teach little.

Axes: B batch, K candidates for each sample, I images, P pixels of the set, p side of an LR crop, s scale.
"""

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from enlcn.data.counter_random import uniform
from enlcn.data.image_io import to_float
from enlcn.data.shards import PackedImages
from enlcn.errors import UserError

log = logging.getLogger(__name__)
_NUMBERS_PER_SAMPLE = 4  # image, row, column, symmetry
_NUM_SYMMETRIES = 8
# Of the device's free memory; the rest is for the network.
_DEVICE_SHARE = 0.5
_BATCHES_AHEAD = 3


@dataclass(frozen=True)
class Sampling:
    """What a batch is.

    Attributes:
        crop: p, the side of an LR crop.
        batch_size: B of the whole step, over all processes.
        augment: flip and rotate.
        candidates: K, the crops drawn for each sample, of which the most detailed is taken.
        by_area: images are drawn in proportion to their area, so that every pixel of the set is about equally likely to
            be trained on, and a thumbnail's are not seen a thousand times for once of a large photo's; otherwise each
            image as often as any other.
        seed: of the draws.
        rank, world_size: which share of the batch this process takes.
    """

    crop: int
    batch_size: int
    augment: bool = True
    candidates: int = 1
    by_area: bool = True
    seed: int = 0
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if min(self.crop, self.batch_size, self.candidates) < 1:
            raise UserError("crop, batch size and candidates must be at least 1")
        if self.batch_size % self.world_size:
            raise UserError(f"a batch of {self.batch_size} cannot be shared evenly by {self.world_size} processes")

    @property
    def local_batch(self) -> int:
        """Samples of this process."""
        return self.batch_size // self.world_size


@dataclass(frozen=True)
class Crops:
    """Where each sample, or candidate, comes from: image index, top, left, symmetry as three bits; (B,) or (BK,)."""

    image: Tensor
    top: Tensor
    left: Tensor
    transpose: Tensor
    flip_rows: Tensor
    flip_columns: Tensor

    def take(self, which: Tensor) -> "Crops":
        """Those numbered by `which`."""
        return Crops(**{name: values[which] for name, values in vars(self).items()})


@dataclass(frozen=True)
class ImageTable:
    """Size and place of every image that is large enough, (I,) int64 each.

    `share_ends` is the running sum of what images are drawn in proportion to: LR areas, or 1 each.
    """

    heights: Tensor
    widths: Tensor
    offsets: Tensor
    share_ends: Tensor

    @staticmethod
    def of(images: PackedImages, sampling: Sampling, device: torch.device) -> "ImageTable":
        """The table of the images that hold at least one crop."""
        crop = sampling.crop
        large_enough = torch.minimum(images.heights, images.widths) >= crop
        if not large_enough.any():
            needed = crop * images.scale
            raise UserError(f"none of the {len(images.names)} images is as large as one crop, {needed}x{needed} pixels")
        small = [name for name, large in zip(images.names, large_enough.tolist(), strict=True) if not large]
        if small:
            log.warning("left out, being smaller than one crop: %s", ", ".join(small))
        heights, widths = images.heights[large_enough], images.widths[large_enough]
        areas = heights * widths
        shares = areas if sampling.by_area else torch.ones_like(areas)
        columns = heights, widths, images.offsets[large_enough], shares.cumsum(0)
        return ImageTable(*(column.to(device) for column in columns))


def choose_crops(table: ImageTable, sampling: Sampling, step: Tensor) -> Crops:
    """All candidates of this process at `step` (a scalar int64 tensor, whose device does the work), (BK,)."""
    first, count = (sampling.candidates * each for each in (sampling.rank * sampling.local_batch, sampling.local_batch))
    sample = torch.arange(first, first + count, device=step.device) + step * sampling.batch_size * sampling.candidates
    numbers = torch.arange(_NUMBERS_PER_SAMPLE, device=step.device).unsqueeze(1)
    draws = uniform(sampling.seed, sample * _NUMBERS_PER_SAMPLE + numbers)  # (4, B)

    place = (draws[0] * table.share_ends[-1]).long()
    image = torch.searchsorted(table.share_ends, place, right=True)
    top = (draws[1] * (table.heights[image] - sampling.crop + 1)).long()
    left = (draws[2] * (table.widths[image] - sampling.crop + 1)).long()
    symmetry = (draws[3] * (_NUM_SYMMETRIES if sampling.augment else 1)).long()
    return Crops(image, top, left, *((symmetry >> bit & 1).bool() for bit in range(3)))


def gather(pixels: Tensor, first: Tensor, width: Tensor, crops: Crops, side: int) -> Tensor:
    """Read crops out of a flat buffer.

    Args:
        pixels: (P, 3).
        first: index of each crop's top left pixel, (B,).
        width: of the image it lies in, (B,).
        crops: their symmetries; transposing a crop is swapping its two strides.
        side: of a crop, here.

    Returns:
        (B, 3, side, side) in channels_last order.
    """
    steps = torch.arange(side, device=pixels.device)
    rows = torch.where(crops.flip_rows[:, None], side - 1 - steps, steps)  # (B, side)
    columns = torch.where(crops.flip_columns[:, None], side - 1 - steps, steps)
    row_stride = torch.where(crops.transpose, 1, width)[:, None]
    column_stride = torch.where(crops.transpose, width, 1)[:, None]
    index = first[:, None, None] + (rows * row_stride)[:, :, None] + (columns * column_stride)[:, None, :]
    return pixels.index_select(0, index.flatten()).view(len(first), side, side, 3).permute(0, 3, 1, 2)


def read_batch(images: PackedImages, table: ImageTable, sampling: Sampling, step: Tensor) -> tuple[Tensor, Tensor]:
    """The batch of `step`: lr (B, 3, p, p) and hr (B, 3, sp, sp), uint8."""
    crops, scale = choose_crops(table, sampling, step), images.scale
    lr = read_lr(images, table, crops, sampling.crop)
    if sampling.candidates > 1:
        best = detail(lr).view(-1, sampling.candidates).argmax(1)
        chosen = best + sampling.candidates * torch.arange(len(best), device=best.device)
        crops, lr = crops.take(chosen), lr[chosen]
    width = table.widths[crops.image]
    hr_first = scale**2 * (table.offsets[crops.image] + crops.top * width) + scale * crops.left
    return lr, gather(images.hr, hr_first, scale * width, crops, scale * sampling.crop)


def read_lr(images: PackedImages, table: ImageTable, crops: Crops, side: int) -> Tensor:
    """(B, 3, p, p), uint8."""
    width = table.widths[crops.image]
    return gather(images.lr, table.offsets[crops.image] + crops.top * width + crops.left, width, crops, side)


def detail(lr: Tensor) -> Tensor:
    """How much is to be seen in each crop: the mean step from pixel to pixel. (B, 3, p, p) uint8 -> (B,) float32."""
    values = lr.float()
    down, right = values.diff(dim=-2).abs(), values.diff(dim=-1).abs()
    return down.mean((1, 2, 3)) + right.mean((1, 2, 3))


class PatchSource(Protocol):
    """Where a training step gets its batch from."""

    def prepare(self, step: int) -> None:
        """Called on the host before each step."""

    def draw(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """lr (B, 3, p, p) and hr (B, 3, sp, sp), float32 in [0, 1]; can be captured in a CUDA graph."""


class DevicePatches:
    """The whole set on one device: nothing but the step's number goes in."""

    def __init__(self, images: PackedImages, sampling: Sampling, device: torch.device):
        self.images = PackedImages(**{**vars(images), "lr": images.lr.to(device), "hr": images.hr.to(device)})
        self.sampling = sampling
        self.table = ImageTable.of(images, sampling, device)

    def prepare(self, step: int) -> None:
        """Nothing to do."""

    def draw(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """See `PatchSource`."""
        lr, hr = read_batch(self.images, self.table, self.sampling, step)
        return to_float(lr), to_float(hr)


class HostPatches:
    """The set in host memory that processes share; a thread gathers the next batches while the device works."""

    def __init__(self, images: PackedImages, sampling: Sampling, device: torch.device):
        self.images = images
        self.sampling = sampling
        self.table = ImageTable.of(images, sampling, torch.device("cpu"))
        self._pin = device.type == "cuda"
        self._pool = ThreadPoolExecutor(1)
        self._ahead: dict[int, Future[tuple[Tensor, Tensor]]] = {}
        # Written before each step and read by it: a captured graph knows their addresses.
        self._lr, self._hr = (batch.to(device) for batch in self._gather(0))

    def prepare(self, step: int) -> None:
        """Copy the batch of `step` to the device, and have the following ones gathered."""
        wanted = range(step, step + _BATCHES_AHEAD)
        for number in wanted:
            if number not in self._ahead:
                self._ahead[number] = self._pool.submit(self._gather, number)
        for number in [number for number in self._ahead if number not in wanted]:
            self._ahead.pop(number).cancel()
        lr, hr = self._ahead.pop(step).result()
        self._lr.copy_(lr, non_blocking=True)
        self._hr.copy_(hr, non_blocking=True)

    def draw(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """See `PatchSource`; `prepare` has decided the step."""
        return to_float(self._lr), to_float(self._hr)

    def _gather(self, step: int) -> tuple[Tensor, Tensor]:
        batches = read_batch(self.images, self.table, self.sampling, torch.tensor(step))
        lr, hr = (batch.pin_memory() if self._pin else batch for batch in batches)
        return lr, hr


PLACEMENTS: dict[str, type[DevicePatches] | type[HostPatches]] = {"device": DevicePatches, "host": HostPatches}


def open_patches(
    images: PackedImages, sampling: Sampling, device: torch.device, placement: str = "auto"
) -> DevicePatches | HostPatches:
    """On the device where it fits into half of the free memory ("auto"), or where told."""
    if placement == "auto":
        placement = "device" if _fits(images, device) else "host"
    if placement not in PLACEMENTS:
        raise UserError(f"unknown placement '{placement}'; choose from auto, {', '.join(PLACEMENTS)}")
    return PLACEMENTS[placement](images, sampling, device)


def _fits(images: PackedImages, device: torch.device) -> bool:
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return images.lr.numel() + images.hr.numel() < _DEVICE_SHARE * free
