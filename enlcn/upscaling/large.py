"""Pictures whose pixels do not fit in memory: from file to file through scratch planes."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enlcn.data.image_formats import check_format_fits
from enlcn.data.image_io import MAX_PIXELS
from enlcn.errors import UserError
from enlcn.files import atomic_write
from enlcn.upscaling import memory
from enlcn.upscaling.devices import resolve_device
from enlcn.upscaling.jobs import Job
from enlcn.upscaling.picture import Source, upscale_source
from enlcn.upscaling.planes import FilePlane, MemoryPlane, Plane, Scratch
from enlcn.upscaling.streaming import Progress

if TYPE_CHECKING:
    from enlcn.upscaling.batch import Batch, BatchOptions


def is_large(path: Path, options: "BatchOptions") -> bool:
    """Whether input and output together would take more than a quarter of the memory limit."""
    size = header_size(path)
    if size is None:
        return False
    width, height = size
    out_height, out_width = options.target.size(height, width)
    limit = options.engine.limit or memory.default_limit(resolve_device(options.engine.device))
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
    if options.max_pixels is not None and opened.height * opened.width > options.max_pixels:
        pixels = f"{opened.width:,}x{opened.height:,}"
        raise UserError(f"{job.source}: {pixels} pixels are more than --max-pixels {options.max_pixels:,}")
    out_height, out_width = options.target.size(opened.height, opened.width)
    check_format_fits(job.format, out_width, out_height, str(job.target))
    engine = batch.engine_for(opened.height, opened.width)
    room = Scratch(engine.limit // 8, options.engine.scratch)
    with atomic_write(job.target, overwrite=options.overwrite) as temporary, room as scratch:
        source = _read(opened, scratch)
        result, report = upscale_source(engine, source, options.target, scratch.plane, progress)

        def raw(plane: Plane) -> RawPixels:
            shape = (plane.height, plane.width, plane.channels)
            if isinstance(plane, FilePlane):
                return RawPixels(shape, result.dtype, handle=plane.handle)
            assert isinstance(plane, MemoryPlane)
            return RawPixels(shape, result.dtype, array=plane.array)

        alpha = None if result.alpha is None else raw(result.alpha)
        save_raw(
            raw(result.pixels),
            alpha,
            opened.like,
            temporary,
            job.format,
            quality=options.quality,
            lossless=options.lossless,
        )
        facts = asdict(report)
        facts.pop("seconds")
        facts["disk"] += scratch.disk_used
    return facts | {"lr_size": (opened.width, opened.height), "sr_size": (out_width, out_height)}


def _read(opened: Any, scratch: Scratch) -> Source:
    pixels = scratch.plane(opened.height, opened.width, opened.channels, opened.dtype)
    alpha = scratch.plane(opened.height, opened.width, 1, opened.dtype) if opened.has_alpha else None
    for top, left, part, part_alpha in opened.strips():
        pixels.write(top, left, part)
        if alpha is not None:
            alpha.write(top, left, part_alpha[..., None])
    return Source(pixels, alpha, np.dtype(opened.dtype))


def header_size(path: Path) -> tuple[int, int] | None:
    """(width, height) by the header, orientation left out; None where the picture cannot be opened at all."""
    from PIL import Image as Pillow

    limit, Pillow.MAX_IMAGE_PIXELS = Pillow.MAX_IMAGE_PIXELS, None  # only the header is read here
    try:
        with Pillow.open(path) as opened:
            return opened.size
    except (OSError, ValueError, SyntaxError):
        return None
    finally:
        Pillow.MAX_IMAGE_PIXELS = limit
