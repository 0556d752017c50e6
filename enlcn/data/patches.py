"""Aligned LR/HR crops, flipped and rotated, gathered from flat buffers by one indexed read per batch.

Of several candidates for a sample the one with most detail is taken: skies teach little. LR crops lie in LR images
made beforehand, or are made of HR crops that begin at any pixel.

Axes: B batch, P pixels of the set, p side of an LR crop, s scale.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import torch
from torch import Tensor

from enlcn.data.crops import Crops, ImageTable, Sampling, choose_crops, sample_numbers
from enlcn.data.degradation import Degradation
from enlcn.data.image_io import to_float
from enlcn.data.rescaling import longest_span, rescale, rescaling_matrices
from enlcn.data.shards import PackedImages
from enlcn.data.shrinking import shrink, shrinking_matrix, without_margin
from enlcn.errors import UserError

# Of the device's free memory; the rest is for the network.
_DEVICE_SHARE = 0.5
_BATCHES_AHEAD = 3


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


def read_batch(
    images: PackedImages,
    table: ImageTable,
    sampling: Sampling,
    step: Tensor,
    matrix: Tensor | None = None,
    degrade: Degradation | None = None,
) -> tuple[Tensor, Tensor]:
    """The batch of `step`: lr (B, 3, p, p) and hr (B, 3, sp, sp), uint8, channels_last.

    `matrix` shrinks crops at any offset, `degrade` makes LR of them that is not clean.
    """
    crops, scale = choose_crops(table, sampling, step), images.scale
    if sampling.candidates > 1 or matrix is None:
        lr = read_lr(images, table, sampling, crops)
    if sampling.candidates > 1:
        best = detail(lr).view(-1, sampling.candidates).argmax(1)
        chosen = best + sampling.candidates * torch.arange(len(best), device=best.device)
        crops, lr = crops.take(chosen), lr[chosen]
    hr = read_rescaled(images, table, sampling, crops) if sampling.rescales else read_hr(images, table, sampling, crops)
    if matrix is not None:
        lr, hr = shrink(hr, matrix), without_margin(hr, scale)
    if sampling.swap_colours:
        orders = table.colour_orders[crops.colours]
        lr, hr = (swap_colours(each, orders) for each in (lr, hr))
    if degrade is not None:
        lr = degrade(lr, sample_numbers(sampling, step))
    return lr.contiguous(memory_format=torch.channels_last), hr.contiguous(memory_format=torch.channels_last)


def read_lr(images: PackedImages, table: ImageTable, sampling: Sampling, crops: Crops) -> Tensor:
    """From the LR images made beforehand: where the crops lie, margins left out, or near it. (B, 3, p, p), uint8."""
    top, left = (start // images.scale + sampling.margin for start in (crops.top, crops.left))
    width = table.widths[crops.image]
    return gather(images.lr, table.offsets[crops.image] + top * width + left, width, crops, sampling.crop)


def read_hr(images: PackedImages, table: ImageTable, sampling: Sampling, crops: Crops) -> Tensor:
    """With their margins, (B, 3, s (p + 2 m), s (p + 2 m)), uint8."""
    scale, width = images.scale, images.scale * table.widths[crops.image]
    first = scale**2 * table.offsets[crops.image] + crops.top * width + crops.left
    return gather(images.hr, first, width, crops, scale * sampling.side)


def read_rescaled(images: PackedImages, table: ImageTable, sampling: Sampling, crops: Crops) -> Tensor:
    """As `read_hr`, of photographs shrunk by the crops' factors."""
    scale, side = images.scale, images.scale * sampling.side
    length = min(longest_span(side, sampling.smallest_factor), table.longest_side)
    height, width = scale * table.heights[crops.image], scale * table.widths[crops.image]
    steps = torch.arange(length, device=crops.top.device)
    # What lies beyond the image has no weight: only the smallest factor's window is as long as this.
    rows, columns = (
        torch.minimum(start[:, None] + steps, size[:, None] - 1)
        for start, size in ((crops.top, height), (crops.left, width))
    )
    first = scale**2 * table.offsets[crops.image]
    index = first[:, None, None] + (rows * width[:, None])[:, :, None] + columns[:, None, :]
    windows = images.hr.index_select(0, index.flatten()).view(len(first), length, length, 3).permute(0, 3, 1, 2)
    matrices = rescaling_matrices(crops.factor, side, length)
    of_rows, of_columns = (
        torch.where(flip[:, None, None], matrices.flip(1), matrices) for flip in (crops.flip_rows, crops.flip_columns)
    )
    turned = crops.transpose[:, None, None]
    # A crop is flipped after it is transposed: with rows and columns exchanged, so are their flips.
    straight = rescale(windows, torch.where(turned, of_columns, of_rows), torch.where(turned, of_rows, of_columns))
    return torch.where(turned.unsqueeze(1), straight.mT, straight)


def swap_colours(batch: Tensor, orders: Tensor) -> Tensor:
    """Channels in another order, each sample's own. (B, 3, H, W), (B, 3) -> (B, 3, H, W)."""
    return batch.gather(1, orders[:, :, None, None].expand_as(batch))


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
        self._matrix = _matrix_for(sampling, images.scale, device)
        self._degrade = Degradation.of(sampling, sampling.seed, device)

    def prepare(self, step: int) -> None:
        """Nothing to do."""

    def draw(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """See `PatchSource`."""
        lr, hr = read_batch(self.images, self.table, self.sampling, step, self._matrix, self._degrade)
        return to_float(lr), to_float(hr)


class HostPatches:
    """The set in host memory that processes share; a thread gathers the next batches while the device works."""

    def __init__(self, images: PackedImages, sampling: Sampling, device: torch.device):
        self.images = images
        self.sampling = sampling
        host = torch.device("cpu")
        self.table = ImageTable.of(images, sampling, host)
        self._matrix = _matrix_for(sampling, images.scale, host)
        self._degrade = Degradation.of(sampling, sampling.seed, host)
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
        batches = read_batch(self.images, self.table, self.sampling, torch.tensor(step), self._matrix, self._degrade)
        lr, hr = (batch.pin_memory() if self._pin else batch for batch in batches)
        return lr, hr


PLACEMENTS: dict[str, type[DevicePatches] | type[HostPatches]] = {"device": DevicePatches, "host": HostPatches}


def open_patches(
    images: PackedImages, sampling: Sampling, device: torch.device, placement: str = "auto"
) -> DevicePatches | HostPatches:
    """On the device where it fits into half of the free memory ("auto"), or where told."""
    if placement == "auto":
        placement = "device" if fits_on(images, device) else "host"
    if placement not in PLACEMENTS:
        raise UserError(f"unknown placement '{placement}'; choose from auto, {', '.join(PLACEMENTS)}")
    return PLACEMENTS[placement](images, sampling, device)


def _matrix_for(sampling: Sampling, scale: int, device: torch.device) -> Tensor | None:
    return shrinking_matrix(sampling.crop, scale, device) if sampling.any_offset else None


def fits_on(images: PackedImages, device: torch.device) -> bool:
    """Whether a decoded set is on a device already, or may be put there: it takes less than half of the free memory."""
    if device.type != "cuda" or images.lr.device.type == "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return images.lr.numel() + images.hr.numel() < _DEVICE_SHARE * free
