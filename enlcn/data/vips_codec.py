"""Image files through libvips: 8 and 16 bit, ICC profiles, EXIF and XMP kept. Imports pyvips on first use.

`decode` and `encode` are for images that fit in memory; the functions below them are what a stream needs too.
"""

import atexit
import struct
import threading
import zlib
from functools import cache
from typing import Any

import numpy as np

from enlcn.data.exif import orientation_of, with_upright_orientation, without_prefix
from enlcn.data.image import Image, ImageError, check_pixel_count, matching_profile, split_alpha
from enlcn.data.image_formats import FORMATS
from enlcn.data.iptc import iptc_of, iptc_of_tiff, jpeg_block
from enlcn.data.tiff_exif import exif_of_tiff, tiff_with_metadata
from enlcn.data.tiff_ycbcr import ycbcr_of_tiff
from enlcn.data.vips_colours import DTYPES, notes_of, to_grey_or_rgb, widened
from enlcn.data.vips_errors import because, fail_on, is_harmless, unreadable
from enlcn.data.xmp import xmp_of_size, xmp_upright

LOADERS = {"png": "png", "jpeg": "jpeg", "webp": "webp", "avif": "heif", "tiff": "tiff"}
_MM_PER_INCH = 25.4
# Pixels per mm where files tell none: assumed by most programs, and what we write into PNG and TIFF, which libvips does
# not write without; and what libvips says then of a PNG and of others.
_ASSUMED = 72 / _MM_PER_INCH
_UNTOLD_IN_PNG, _UNTOLD = (2.834,), (1.0, _ASSUMED)
_KEEP_ALL_BUT_EXIF = 2 + 4 + 8 + 16  # XMP, IPTC, ICC, other: libvips' VipsForeignKeep
# libvips keeps what went wrong in one place for all threads, and whether a fault is harmless is told by its text, which
# the next reader clears: without this lock, a truncated JPEG now and then passed for a whole one. Held while a file is
# read.
READING = threading.RLock()
_CLASSIC_TIFF_BYTES = 2**31  # of its 2**32, half is left for alpha, metadata and what does not compress


def vips() -> Any:
    """The module pyvips, set up once, with no error left over from before."""
    pyvips = _set_up_vips()
    # What went wrong with an earlier file stays in this buffer if that file was read all the same.
    with READING:
        pyvips.vips_lib.vips_error_clear()
    return pyvips


@cache
def _set_up_vips() -> Any:
    import pyvips

    # Its cache of operations would keep whole files alive after they have been decoded.
    pyvips.cache_set_max(0)
    _log_warnings_alone(pyvips)
    return pyvips


def _log_warnings_alone(pyvips: Any) -> None:
    log_callback = getattr(pyvips, "_log_handler_cb", None)
    if log_callback is None:
        return
    glib, flags, null = pyvips.glib_lib, pyvips.GLogLevelFlags, pyvips.ffi.NULL
    levels = flags.LEVEL_WARNING | flags.LEVEL_CRITICAL
    # Sizes beyond its range end in an error like others; GObject would also print them on standard error.
    handler = glib.g_log_set_handler(b"GLib-GObject", levels, log_callback, null)
    atexit.register(glib.g_log_remove_handler, b"GLib-GObject", handler)
    # pyvips takes all that libvips says, and a Ctrl-C that comes meanwhile is raised in its callback and dropped there.
    if getattr(pyvips, "_log_handler_id", None):
        glib.g_log_remove_handler(b"VIPS", pyvips._log_handler_id)
        pyvips._log_handler_id = glib.g_log_set_handler(b"VIPS", levels, log_callback, null)


def is_available(format: str) -> bool:
    """Whether libvips is installed and knows the format."""
    try:
        import pyvips  # noqa: F401
    except (ImportError, OSError):  # OSError: the Python part is there, the library is not
        return False
    return format in LOADERS


def decode(data: bytes, format: str, max_pixels: int, name: str) -> tuple[Image, int]:
    """The stored image, not yet turned upright, and its EXIF orientation."""
    pyvips = vips()
    try:
        with READING:
            image, planes, notes = _read_pixels(data, format, max_pixels, name)
        icc, exif, xmp = (blob(image, field) for field in ("icc-profile-data", "exif-data", "xmp-data"))
        planes = widened(planes, image, format)
        orientation = image.get("orientation") if format == "tiff" else orientation_of(without_prefix(exif))
    except pyvips.Error as error:
        raise unreadable(error, format, name) from None
    pixels, alpha = split_alpha(planes)
    exif = exif_of_tiff(data) if format == "tiff" else without_prefix(exif)
    decoded = Image(
        pixels,
        alpha,
        icc=matching_profile(icc, pixels),
        exif=with_upright_orientation(exif) if exif else None,
        # libvips turns AVIF itself, as that format's own transform says; EXIF and XMP have no say there.
        xmp=xmp_upright(xmp) if xmp and format == "avif" else xmp,
        iptc=iptc_of_tiff(data) if format == "tiff" else iptc_of(blob(image, "iptc-data")),
        dpi=dpi_of(image),
        notes=notes,
    )
    return decoded, 1 if format == "avif" else orientation


def _read_pixels(data: bytes, format: str, max_pixels: int, name: str) -> tuple[Any, np.ndarray, tuple[str, ...]]:
    """The opened file, its pixels (H, W, bands) and notes; harmless warnings are overlooked, missing data is not."""
    pyvips = vips()
    load = getattr(pyvips.Image, f"{LOADERS[format]}load_buffer")
    ycbcr = ycbcr_of_tiff(data) if format == "tiff" else None

    def read(level: str) -> tuple[Any, np.ndarray, tuple[str, ...]]:
        opened = load(data, access="sequential", fail_on=level)
        check_pixel_count(opened.width, opened.height, max_pixels, name)
        image = to_grey_or_rgb(opened, name, ycbcr)
        planes = np.frombuffer(image.write_to_memory(), DTYPES[image.format])
        return image, planes.reshape(image.height, image.width, image.bands), notes_of(opened)

    try:
        return read(fail_on(format))
    except pyvips.Error as error:
        if not is_harmless(error, format):
            raise
        return read("error")


def encode(image: Image, format: str, quality: int | None, lossless: bool, name: str) -> bytes:
    """The bytes of an image file."""
    pyvips = vips()
    planes = image.planes()
    bands, kind = planes.shape[2], "uchar" if image.bits == 8 else "ushort"
    try:
        encoded = pyvips.Image.new_from_memory(planes, image.width, image.height, bands, kind)
        encoded = with_metadata(encoded, image, format, image.bits, image.is_grey)
        options = save_options(format, image.bits, planes.nbytes, quality, lossless) | without_new_exif(format, image)
        data = getattr(encoded, f"{LOADERS[format]}save_buffer")(**options)
    except pyvips.Error as error:
        raise ImageError(f"{name}: cannot be written as {FORMATS[format].name}{because(error)}") from None
    return tiff_with_metadata(data, image.exif, image.iptc) if format == "tiff" else data


def with_metadata(image: Any, like: Image, format: str, bits: int, is_grey: bool) -> Any:
    """A libvips image declared grey or RGB of 8 or 16 bits, with the profile and the metadata of `like` that fit it."""
    colours = {8: ("srgb", "b-w"), 16: ("rgb16", "grey16")}[bits][is_grey]
    image = image.copy(interpretation=colours)
    xres, yres = (_ASSUMED, _ASSUMED) if like.dpi is None else (dpi / _MM_PER_INCH for dpi in like.dpi)
    image = image.copy(xres=xres, yres=yres)
    xmp = None if like.xmp is None else xmp_of_size(like.xmp, image.width, image.height)
    iptc = jpeg_block(like.iptc) if format == "jpeg" and like.iptc else None  # libvips writes a part of it into TIFF
    for field, data in (("icc-profile-data", like.icc), ("xmp-data", xmp), ("iptc-data", iptc)):
        if data is not None:
            image.set_type(vips().GValue.blob_type, field, data)
    if like.exif is not None:
        _attach_exif(image, like.exif)
    return image


def save_options(format: str, bits: int, nbytes: int, quality: int | None, lossless: bool) -> dict[str, Any]:
    """What to tell the writer of a format about pixels of so many bits a sample and bytes in all."""
    if format == "jpeg":
        return {"Q": quality, "subsample_mode": "off", "optimize_coding": True}
    if format == "webp":
        return {"Q": quality, "lossless": lossless, "exact": True, "smart_subsample": True}
    if format == "avif":
        options = {"Q": quality, "lossless": lossless, "bitdepth": min(bits, FORMATS["avif"].max_bits)}
        return options | {"compression": "av1", "subsample_mode": "off"}
    if format == "tiff":
        return {"compression": "deflate", "predictor": "horizontal", "bigtiff": nbytes > _CLASSIC_TIFF_BYTES}
    return {}


def without_new_exif(format: str, like: Image) -> dict[str, Any]:
    """What keeps the writer from making an EXIF block of its own, where that would say nothing about the picture."""
    # Elsewhere than in PNG, EXIF is where the resolution is told; and JPEG files without any header are rare.
    told_elsewhere = format == "png" or (format in ("webp", "avif") and like.dpi is None)
    if like.exif is not None or not told_elsewhere or not vips().at_least_libvips(8, 15):
        return {}
    return {"keep": _KEEP_ALL_BUT_EXIF}


def blob(image: Any, field: str) -> bytes | None:
    """A block of metadata by its name in libvips; None where the image has none."""
    return bytes(image.get(field)) or None if image.get_typeof(field) else None


def dpi_of(image: Any) -> tuple[float, float] | None:
    """Resolution where the file gave one."""
    untold = _UNTOLD_IN_PNG if image.get("vips-loader").startswith("png") else _UNTOLD
    has_unit = image.get_typeof("resolution-unit") != 0  # as TIFF and JPEG files have that tell one
    if not has_unit and image.xres == image.yres and image.xres in untold:
        return None
    return image.xres * _MM_PER_INCH, image.yres * _MM_PER_INCH


def _attach_exif(image: Any, exif: bytes) -> None:
    """Give the image an EXIF block in the form that libvips writes.

    It writes only tags that it has parsed on loading, so a file of one pixel carries the block to its parser.
    """
    carrier = vips().Image.pngload_buffer(_one_pixel_png(exif))
    for field in carrier.get_fields():
        if field.startswith("exif-"):
            image.set_type(carrier.get_typeof(field), field, carrier.get(field))


def _one_pixel_png(exif: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    chunks = [
        chunk(b"IHDR", header),
        chunk(b"eXIf", exif),
        chunk(b"IDAT", zlib.compress(b"\0\0")),
        chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
