"""What a run would refuse of a picture, told before it: from the header alone as far as that goes."""

from pathlib import Path
from typing import TYPE_CHECKING

from enlcn.data import vips_codec
from enlcn.data.image import TooManyPixelsError, UnsupportedImageError, check_pixel_count
from enlcn.data.image_formats import FORMATS, sniff_format
from enlcn.data.image_io import MAX_PIXELS, check_can_write, has_transparency, load_image
from enlcn.data.pillow_codec import OPENING, refuse_mode
from enlcn.errors import UserError
from enlcn.upscaling.jobs import Job, why_absent
from enlcn.upscaling.large import LIMIT_ADVICE, can_be_streamed, header_size, is_large, require_scratch
from enlcn.zoo import is_remote

if TYPE_CHECKING:
    from enlcn.upscaling.batch import Batch

_SNIFFED = 64  # bytes that tell a format


def seen_size(job: Job, max_pixels: int | None) -> tuple[tuple[int, int] | None, str]:
    """(width, height) of a job's picture as far as it can be told, and why it cannot be read, or "" where it can."""
    if job.source is None:
        return None, ""
    if absent := why_absent(job.source):
        return None, absent
    size = header_size(job.source)
    try:
        if size is None:  # what cannot be opened by its header alone is opened as the run would
            image = load_image(job.source, max_pixels=max_pixels or MAX_PIXELS)
            return (image.width, image.height), ""
        is_streamed = max_pixels is None and job.target is not None and can_be_streamed(job.source)
        if not is_streamed:
            check_pixel_count(*size, max_pixels or MAX_PIXELS, str(job.source))
    except UserError as error:
        advice = f"; {LIMIT_ADVICE}" if isinstance(error, TooManyPixelsError) else ""
        return size, str(error).removeprefix(f"{job.source}: ") + advice
    return size, _kind_problem(job.source)


def writing_problem(job: Job, batch: "Batch", size: tuple[int, int]) -> str:
    """Why a picture of `size` (width, height) cannot be written as its job wants it; "" where it can, if opaque."""
    height, width = batch.options.target.size(size[1], size[0])
    how = {"quality": batch.options.quality, "lossless": batch.options.lossless}
    name = str(job.target or "output")
    try:
        check_can_write(job.format, width, height, transparent=False, name=name, **how)  # type: ignore[arg-type]
    except UserError as error:
        return str(error).removeprefix(f"{name}: ")
    return ""


def scratch_problem(job: Job, batch: "Batch", size: tuple[int, int]) -> str:
    """Why a picture that would be streamed has no room for it on disk; "" where it has, or is none of those."""
    from enlcn.data.vips_stream import ImageStream

    options = batch.options
    if job.source is None or job.target is None or (options.model and is_remote(options.model)):
        return ""
    try:
        if is_large(job.source, options):
            require_scratch(ImageStream(job.source), batch.engine_for(size[1], size[0]))
    except UserError as error:
        return str(error).removeprefix(f"{job.source}: ")
    return ""


def alpha_problem(job: Job) -> str:
    """Why a transparent picture cannot be written in the format of its job; "" where it can, or is opaque."""
    form = FORMATS.get(job.format)
    if form is None or form.has_alpha or job.source is None:
        return ""
    try:
        with job.source.open("rb") as file:
            may_be = FORMATS[sniff_format(file.read(_SNIFFED), str(job.source))].has_alpha
        transparent = may_be and has_transparency(load_image(job.source))
    except UserError:
        return ""  # the size is known, so that only reading it whole would tell more
    return f"transparent, which {form.name} cannot be: pass --background white" if transparent else ""


def _kind_problem(path: Path) -> str:
    """Why samples of such a kind, or compressed so, are not read; "" where they are. Only TIFF has any such."""
    from enlcn.data.vips_stream import ImageStream

    try:
        with path.open("rb") as file:
            if sniff_format(file.read(_SNIFFED), str(path)) != "tiff":
                return ""
        if vips_codec.is_available("tiff"):
            next(ImageStream(path).strips())
        else:
            _refuse_mode_of(path)
    except UnsupportedImageError as error:
        return str(error).removeprefix(f"{path}: ")
    except UserError:  # damage is for the run to find: it overlooks some
        return ""
    return ""


def _refuse_mode_of(path: Path) -> None:
    from PIL import Image as Pillow

    with OPENING, Pillow.open(path) as opened:
        refuse_mode(opened.mode, str(path))
