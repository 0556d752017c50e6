"""One picture: grey and alpha around a network that knows RGB alone, and any output size.

Grey is repeated to RGB and averaged back. Alpha is upscaled like a grey picture. Colours that hide under transparent
pixels are replaced by those around before, so that they do not bleed into visible ones, and near transparency both
results stay within what the input shows there. On a background, there is no alpha any more, and one run of the network
instead of two.

Axes: H rows, W columns of the LR picture, C = 1 or 3 channels, s scale.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from enlcn.data.image import Image
from enlcn.data.image_io import to_float, to_uint8, to_uint16
from enlcn.errors import UserError
from enlcn.upscaling.background import Colour, colour_values, flattened
from enlcn.upscaling.engine import Engine, RunReport
from enlcn.upscaling.extremes import hold_clear
from enlcn.upscaling.filling import filled
from enlcn.upscaling.planes import MemoryPlane, NewPlane, Plane, in_memory, strips
from enlcn.upscaling.ranges import hold_alpha, hold_colours
from enlcn.upscaling.resizing import resize_plane
from enlcn.upscaling.streaming import Progress
from enlcn.upscaling.target import Target
from enlcn.upscaling.tiling import Tile
from enlcn.zoo import beyond_advice


def upscale_image(
    engine: Engine,
    image: Image,
    target: Target | None = None,
    progress: Progress | None = None,
    background: Colour | None = None,
) -> tuple[Image, RunReport]:
    """Upscale an image held in memory.

    Args:
        engine: the network.
        image: grey or RGB, 8 or 16 bit, with or without alpha.
        target: the size wanted; None takes the network's own scale.
        progress: called with (steps done, steps in all).
        background: what transparent pixels are put on; None keeps alpha.

    Returns:
        The image with depth, profile and metadata kept, and what was done.
    """
    alpha = None if image.alpha is None else MemoryPlane(image.alpha[..., None])
    source = Source(MemoryPlane(image.pixels), alpha, image.pixels.dtype)
    target = target or Target(scale=engine.scale)
    result, report = upscale_source(engine, source, target, in_memory, progress, background)
    assert isinstance(result.pixels, MemoryPlane)
    out_alpha = result.alpha.array[..., 0] if isinstance(result.alpha, MemoryPlane) else None
    pixels = result.pixels.array
    icc = image.icc if pixels.shape[2] == image.pixels.shape[2] else None  # grey put on a colour
    return replace(image, pixels=pixels, alpha=out_alpha, icc=icc), report


@dataclass(frozen=True)
class Source:
    """Pixels (H, W, C), alpha (H, W, 1) or None, both of `dtype` uint8 or uint16."""

    pixels: Plane
    alpha: Plane | None
    dtype: np.dtype


def upscale_source(
    engine: Engine,
    source: Source,
    target: Target,
    new_plane: NewPlane,
    progress: Progress | None = None,
    background: Colour | None = None,
) -> tuple[Source, RunReport]:
    """Upscale planes into planes made by `new_plane(height, width, channels, dtype)`, put on `background` if any."""
    height, width = source.pixels.height, source.pixels.width
    out_height, out_width = target.size(height, width)
    scale = engine.scale
    if out_height > height * scale or out_width > width * scale:
        raise UserError(
            f"{width}x{height} to {out_width}x{out_height} needs more than this model's x{scale}"
            f"{beyond_advice(target.factor(height, width), scale) or f'; ask for x{scale} or less'}"
        )
    exact = (out_height, out_width) == (height * scale, width * scale)
    # A result that is shrunk afterwards keeps 16 bits until then.
    dtype = source.dtype if exact else np.dtype(np.uint16)
    seen = source.alpha
    if seen is not None and background is not None:
        source = Source(flattened(source.pixels, seen, background, source.dtype, new_plane), None, source.dtype)
    runs = 2 if source.alpha is not None and not is_opaque(source.alpha) else 1

    alpha, report = None, None
    if source.alpha is not None:
        alpha = new_plane(height * scale, width * scale, 1, dtype)
        if runs == 2:
            reader, writer = _Reader(source.alpha), _Writer(alpha, scale, dtype)
            report = engine.upscale(height, width, reader, writer, _share(progress, 0, runs))
        else:
            _fill(alpha, np.iinfo(dtype).max, dtype)
    shown = source.pixels
    if runs == 2:
        assert source.alpha is not None
        shown = filled(source.pixels, source.alpha, source.dtype, new_plane)
    pixels = new_plane(height * scale, width * scale, source.pixels.channels, dtype)
    writer = _Writer(pixels, scale, dtype)
    second = engine.upscale(height, width, _Reader(shown), writer, _share(progress, runs - 1, runs))
    report = second if report is None else _joined(report, second)
    if seen is not None and background is not None:
        behind = colour_values(background, pixels.channels, dtype)
        hold_clear(seen, pixels, scale, behind.round().astype(dtype))
    if target.factor(height, width) < 1:
        report = replace(report, notes=(*report.notes, "smaller than the input; a scale above 1 enlarges"))
    if abs(out_height * width - out_width * height) > max(height, width):  # by more than rounding
        stretched = "stretched: width and height are in another proportion than the input's; give one of them"
        report = replace(report, notes=(*report.notes, stretched))
    if not exact:
        pixels = _shrunk(pixels, out_height, out_width, source.dtype, new_plane)
        alpha = None if alpha is None else _shrunk(alpha, out_height, out_width, source.dtype, new_plane)
    if runs == 2:
        assert source.alpha is not None
        assert alpha is not None
        hold_alpha(source.alpha, alpha)
        hold_colours(source.pixels, source.alpha, shown, pixels)
    return Source(pixels, alpha, source.dtype), report


class _Reader:
    """Tiles of a plane as RGB (1, 3, h, w) in [0, 1]."""

    def __init__(self, pixels: Plane):
        self._pixels = pixels

    def __call__(self, tile: Tile) -> Tensor:
        values = self._pixels.read(tile.top, tile.bottom, tile.left, tile.right)
        return to_float(torch.from_numpy(values)).permute(2, 0, 1).unsqueeze(0).expand(-1, 3, -1, -1)


class _Writer:
    """Takes SR tiles (1, 3, s h, s w): back to grey, rounded, into a plane."""

    def __init__(self, pixels: Plane, scale: int, dtype: np.dtype):
        self._pixels, self._scale = pixels, scale
        self._round = to_uint8 if dtype == np.uint8 else to_uint16

    def __call__(self, tile: Tile, sr: Tensor) -> None:
        if self._pixels.channels == 1:
            sr = sr.mean(dim=1, keepdim=True)
        array = self._round(sr)[0].permute(1, 2, 0).numpy()
        self._pixels.write(tile.top * self._scale, tile.left * self._scale, array)


def is_opaque(alpha: Plane) -> bool:
    """Whether every pixel of an alpha plane (H, W, 1) has its largest value."""
    for top, bottom in strips(alpha):
        part = alpha.read(top, bottom, 0, alpha.width)
        if part.min() < np.iinfo(part.dtype).max:
            return False
    return True


def _fill(plane: Plane, value: int, dtype: np.dtype) -> None:
    for top, bottom in strips(plane):
        plane.write(top, 0, np.full((bottom - top, plane.width, plane.channels), value, dtype))


def _shrunk(plane: Plane, height: int, width: int, dtype: np.dtype, new_plane: NewPlane) -> Plane:
    target = new_plane(height, width, plane.channels, dtype)
    resize_plane(plane, target, dtype)
    return target


def _share(progress: Progress | None, run: int, runs: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total: progress(run * total + done, runs * total)


def _joined(first: RunReport, second: RunReport) -> RunReport:
    notes = tuple(dict.fromkeys((*first.notes, *second.notes)))
    disk = max(first.disk, second.disk)
    return replace(second, seconds=first.seconds + second.seconds, notes=notes, disk=disk)
