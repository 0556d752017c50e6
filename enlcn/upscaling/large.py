"""Pictures whose pixels do not fit in memory: from file to file through scratch planes."""

import logging
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from enlcn.data import vips_codec
from enlcn.data.image import TooManyPixelsError, check_pixel_count
from enlcn.data.image_formats import FORMATS, sniff_format
from enlcn.data.image_io import MAX_PIXELS, check_can_write, writing_notes
from enlcn.data.pillow_codec import OPENING, orientation_in
from enlcn.errors import UserError
from enlcn.files import atomic_write
from enlcn.upscaling import memory
from enlcn.upscaling.jobs import Job
from enlcn.upscaling.picture import Source, is_opaque, upscale_source
from enlcn.upscaling.planes import FilePlane, MemoryPlane, Plane, Scratch, require_disk
from enlcn.upscaling.streaming import Progress, features_channels

if TYPE_CHECKING:
    from enlcn.upscaling.batch import Batch
    from enlcn.upscaling.batch_options import BatchOptions

log = logging.getLogger(__name__)
_SNIFFED = 64  # bytes that tell a format
LIMIT_ADVICE = "--max-pixels sets another limit"
_ORIENTATION, _TIFF_WIDTH, _TIFF_HEIGHT = 0x0112, 0x0100, 0x0101


def is_large(path: Path, options: "BatchOptions") -> bool:
    """Whether input and output together would take more than a quarter of the memory limit."""
    size = header_size(path)
    if size is None or not can_be_streamed(path):
        return False
    width, height = size
    out_height, out_width = options.target.size(height, width)
    limit = options.engine.limit or memory.default_limit(torch.device("cpu"))
    # Both are held as arrays, the result once more encoded; up to 16 bits a channel.
    nbytes = (width * height + 2 * out_width * out_height) * 3 * 2
    return nbytes > limit // 4 or width * height > MAX_PIXELS


def upscale_large(batch: "Batch", job: Job, progress: Progress | None) -> dict[str, Any]:
    """Upscale a file into a file; neither ever has to fit in memory. Returns the facts of an outcome."""
    from enlcn.data.vips_stream import ImageStream, RawPixels, save_raw

    options = batch.options
    assert job.source is not None
    assert job.target is not None
    opened = ImageStream(job.source)
    for note in opened.notes:
        log.warning("%s: %s", job.source, note)
    if options.max_pixels is not None:
        try:
            check_pixel_count(opened.width, opened.height, options.max_pixels, str(job.source))
        except TooManyPixelsError as error:
            raise UserError(f"{error}; {LIMIT_ADVICE}") from None
    out_height, out_width = options.target.size(opened.height, opened.width)
    how: dict[str, Any] = {"quality": options.quality, "lossless": options.lossless, "name": str(job.target)}
    check_can_write(job.format, out_width, out_height, transparent=False, **how)
    engine = batch.engine_for(opened.height, opened.width)
    require_scratch(opened, engine)
    room = Scratch(engine.host_limit // 8, options.engine.scratch)
    with atomic_write(job.target, overwrite=options.overwrite) as temporary, room as scratch:
        source = _read(opened, scratch)
        if source.alpha is not None and options.background is None and not FORMATS[job.format].has_alpha:
            check_can_write(job.format, out_width, out_height, transparent=not is_opaque(source.alpha), **how)
            source = Source(source.pixels, None, source.dtype)
        result, report = upscale_source(engine, source, options.target, scratch.plane, progress, options.background)

        def raw(plane: Plane) -> RawPixels:
            shape = (plane.height, plane.width, plane.channels)
            if isinstance(plane, FilePlane):
                return RawPixels(shape, result.dtype, handle=plane.handle)
            assert isinstance(plane, MemoryPlane)
            return RawPixels(shape, result.dtype, array=plane.array)

        alpha = None if result.alpha is None else raw(result.alpha)
        like = opened.like if result.pixels.channels == opened.channels else replace(opened.like, icc=None)
        save_raw(
            raw(result.pixels),
            alpha,
            like,
            temporary,
            job.format,
            quality=options.quality,
            lossless=options.lossless,
        )
        facts = asdict(report)
        facts.pop("seconds")
        facts["disk"] += scratch.disk_used
    sizes = {"lr_size": (opened.width, opened.height), "sr_size": (out_width, out_height)}
    lost = writing_notes(job.format, 8 * result.dtype.itemsize, opened.like.iptc)
    for note in lost:
        log.warning("%s: %s", job.target, note)
    model = batch.checkpoint_for(opened.height, opened.width)
    return facts | sizes | {"model": model, "jpeg_quality": opened.like.jpeg_quality, "told": (*opened.notes, *lost)}


def _read(opened: Any, scratch: Scratch) -> Source:
    pixels = scratch.plane(opened.height, opened.width, opened.channels, opened.dtype)
    alpha = scratch.plane(opened.height, opened.width, 1, opened.dtype) if opened.has_alpha else None
    for top, left, part, part_alpha in opened.strips():
        pixels.write(top, left, part)
        if alpha is not None:
            alpha.write(top, left, part_alpha[..., None])
    return Source(pixels, alpha, np.dtype(opened.dtype))


def can_be_streamed(path: Path) -> bool:
    """Whether a file's format is read strip by strip here."""
    with path.open("rb") as file:
        return vips_codec.is_available(sniff_format(file.read(_SNIFFED), str(path)))


def require_scratch(opened: Any, engine: Any) -> None:
    """An error where the disk has no room for the planes of an `ImageStream` on its way through an engine."""
    require_disk(Scratch(0, engine.options.scratch).folder, _scratch_bytes(opened, engine))


def _scratch_bytes(opened: Any, engine: Any) -> int:
    """All that may lie on disk at once: the input, twice with alpha; between stages; the result, shrunk or not."""
    channels = opened.channels + opened.has_alpha
    pixels = opened.height * opened.width
    result = pixels * engine.scale**2 * channels * 2
    source = pixels * (channels + opened.has_alpha * 3) * opened.dtype.itemsize
    return int(source + pixels * features_channels(engine.network) * 4 + 2 * result)


def header_size(path: Path) -> tuple[int, int] | None:
    """(width, height) as seen, by the header alone; None where the picture cannot be opened at all."""
    from PIL import Image as Pillow

    try:
        with OPENING, Pillow.open(path) as opened:
            # Pillow gives the size of a turned TIFF as seen, and of all others as stored.
            tags = getattr(opened, "tag_v2", None)
            if tags is None:
                width, height, orientation = *opened.size, orientation_in(opened)
            else:
                width, height, orientation = tags[_TIFF_WIDTH], tags[_TIFF_HEIGHT], tags.get(_ORIENTATION, 1)
            return (height, width) if orientation >= 5 else (width, height)
    except Exception:  # damaged headers raise nearly anything; reading the picture will say what is wrong
        return None
