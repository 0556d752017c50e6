"""Image files through libvips: 8 and 16 bit, ICC profiles, EXIF and XMP kept. Imports pyvips on first use.

`decode` and `encode` are for images that fit in memory; the functions below them are what a stream needs too.
"""

import atexit
import re
import struct
import threading
import zlib
from functools import cache
from typing import Any

import numpy as np

from enlcn.data.exif import orientation_of, with_upright_orientation, without_prefix
from enlcn.data.image import (
    CMYK_NOTE,
    LAB_REFUSAL,
    Image,
    ImageError,
    UnsupportedImageError,
    check_pixel_count,
    matching_profile,
    split_alpha,
)
from enlcn.data.image_formats import FORMATS
from enlcn.data.tiff_exif import exif_of_tiff, tiff_with_exif

LOADERS = {"png": "png", "jpeg": "jpeg", "webp": "webp", "avif": "heif", "tiff": "tiff"}
# Missing data is only a warning to libjpeg, and to libtiff in tiles: grey or black would take its place.
_STRICTLY_READ = ("jpeg", "tiff")
_HARMLESS = re.compile(r"VipsJpeg: Corrupt JPEG data: \d+ extraneous bytes before marker")
_MM_PER_INCH = 25.4
# Pixels per mm where files tell none: assumed by most programs, and what we write into PNG and TIFF, which libvips does
# not write without; and what libvips says then of a PNG and of others.
_ASSUMED = 72 / _MM_PER_INCH
_UNTOLD_IN_PNG, _UNTOLD = (2.834,), (1.0, _ASSUMED)
_KEEP_ALL_BUT_EXIF = 2 + 4 + 8 + 16  # XMP, IPTC, ICC, other: libvips' VipsForeignKeep
_DEVICE_INDEPENDENT = ("lab", "labs", "labq", "xyz", "lch", "cmc")
_DTYPES: dict[str, np.dtype] = {"uchar": np.dtype(np.uint8), "ushort": np.dtype(np.uint16)}
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
        xmp=xmp,
        dpi=dpi_of(image),
        notes=notes,
    )
    # libvips turns AVIF itself, as that format's own transform says; EXIF has no say there.
    return decoded, 1 if format == "avif" else orientation


def _read_pixels(data: bytes, format: str, max_pixels: int, name: str) -> tuple[Any, np.ndarray, tuple[str, ...]]:
    """The opened file, its pixels (H, W, bands) and notes; harmless warnings are overlooked, missing data is not."""
    pyvips = vips()
    load = getattr(pyvips.Image, f"{LOADERS[format]}load_buffer")

    def read(level: str) -> tuple[Any, np.ndarray, tuple[str, ...]]:
        opened = load(data, access="sequential", fail_on=level)
        check_pixel_count(opened.width, opened.height, max_pixels, name)
        image = to_grey_or_rgb(opened, name)
        planes = np.frombuffer(image.write_to_memory(), _DTYPES[image.format])
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
        encoded = with_metadata(encoded, image, image.bits, image.is_grey)
        options = save_options(format, image.bits, planes.nbytes, quality, lossless) | without_new_exif(format, image)
        data = getattr(encoded, f"{LOADERS[format]}save_buffer")(**options)
    except pyvips.Error as error:
        raise ImageError(f"{name}: cannot be written as {FORMATS[format].name}{because(error)}") from None
    return tiff_with_exif(data, image.exif) if format == "tiff" and image.exif else data


def is_harmless(error: Any, format: str) -> bool:
    """Whether a strictly read file failed for warnings alone that leave its pixels whole."""
    told = _told(error)
    if format == "jpeg" and not told:  # libtiff warns without a word; libjpeg's have been cleared by another thread
        return False
    return format in _STRICTLY_READ and all(_HARMLESS.match(line) for line in told)


def widened(planes: np.ndarray, image: Any, format: str) -> np.ndarray:
    """Samples of 10 and 12 bits, whose low bits libvips leaves empty, over all 16: white becomes 65,535."""
    depth = image.get("heif-bitdepth") if format == "avif" else 8
    return planes | planes >> depth if depth in (10, 12) else planes


def fail_on(format: str) -> str:
    """How grave a fault must be to end the reading of a file."""
    return "warning" if format in _STRICTLY_READ else "error"


def with_metadata(image: Any, like: Image, bits: int, is_grey: bool) -> Any:
    """A libvips image declared grey or RGB of 8 or 16 bits, with the profile and metadata of `like`."""
    colours = {8: ("srgb", "b-w"), 16: ("rgb16", "grey16")}[bits][is_grey]
    image = image.copy(interpretation=colours)
    xres, yres = (_ASSUMED, _ASSUMED) if like.dpi is None else (dpi / _MM_PER_INCH for dpi in like.dpi)
    image = image.copy(xres=xres, yres=yres)
    for field, data in (("icc-profile-data", like.icc), ("xmp-data", like.xmp)):
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


def notes_of(opened: Any) -> tuple[str, ...]:
    """What an opened file holds that is not read, or not as it is."""
    pages = opened.get("n-pages") if opened.get_typeof("n-pages") else 1
    cmyk = (CMYK_NOTE,) if opened.interpretation == "cmyk" else ()
    return (*cmyk, f"has {pages} pages or frames; only the first is read") if pages > 1 else cmyk


def to_grey_or_rgb(image: Any, name: str) -> Any:
    """One to four bands of 8 or 16 bits: CMYK goes through its profile, Lab to sRGB."""
    if image.interpretation == "cmyk":
        depth = 16 if image.format == "ushort" else 8
        image = image.icc_transform(
            "srgb", embedded=True, input_profile="cmyk", depth=depth, black_point_compensation=True
        )
    elif image.interpretation in _DEVICE_INDEPENDENT:
        image = image.colourspace("srgb")
        image.remove("icc-profile-data")
    if image.format not in _DTYPES:
        raise UnsupportedImageError(f"{name}: has {image.format} samples; convert it to 8 or 16 bits a channel")
    if image.bands > 4:
        told = f"has {image.bands} channels; only grey and RGB, with or without alpha, are read"
        raise UnsupportedImageError(f"{name}: {told}")
    return image


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


def unreadable(error: Any, format: str, name: str) -> ImageError:
    """What to raise where libvips could not read a file."""
    if "labq" in str(error):  # of 8 bits, which it takes for a packing of its own
        return UnsupportedImageError(f"{name}: {LAB_REFUSAL}")
    return ImageError(f"{name}: damaged or truncated {FORMATS[format].name} file{because(error)}")


def because(error: Any) -> str:
    """Why libvips failed, in brackets, to follow what it failed at; nothing where it does not say."""
    return f" ({told[0]})" if (told := _told(error)) else ""


def _told(error: Any) -> list[str]:
    """libvips' own words, without the lines that only say where it was."""
    lines = [line.strip() for line in str(error).splitlines()]
    return [line for line in lines if line and not line.startswith("unable to") and not line.endswith(": load error")]
