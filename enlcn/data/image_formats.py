"""Which image formats are read and written, how they are recognised, and what each can hold."""

from dataclasses import dataclass
from pathlib import Path

from enlcn.data.image import ImageError


@dataclass(frozen=True)
class Format:
    """What a file format can hold, and how good its lossy files are made by default."""

    name: str
    suffixes: tuple[str, ...]
    max_side: int = 2**31 - 1
    max_bits: int = 16
    has_alpha: bool = True
    has_grey: bool = True
    quality: int | None = None
    has_lossless_mode: bool = False
    writable: bool = True


# max_side is what the encoders accept; JPEG's own limit of 65,535 is a little above libjpeg's.
# AVIF can be grey, but its decoders return RGB.
FORMATS = {
    "png": Format("PNG", (".png",)),
    "jpeg": Format(
        "JPEG", (".jpg", ".jpeg", ".jpe", ".jfif"), max_side=65_500, max_bits=8, has_alpha=False, quality=95
    ),
    "webp": Format("WebP", (".webp",), max_side=16_383, max_bits=8, has_grey=False, quality=95, has_lossless_mode=True),
    "avif": Format(
        "AVIF", (".avif",), max_side=16_384, max_bits=12, has_grey=False, quality=90, has_lossless_mode=True
    ),
    "tiff": Format("TIFF", (".tif", ".tiff")),
    "bmp": Format("BMP", (".bmp",), writable=False),
}
SUFFIXES = tuple(suffix for form in FORMATS.values() for suffix in form.suffixes)
_WRITABLE = [suffix for form in FORMATS.values() if form.writable for suffix in form.suffixes]
_READABLE = ", ".join(form.name for form in FORMATS.values())

_TIFF_MARKS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_AVIF_BRANDS = (b"avif", b"avis", b"mif1", b"miaf")


def sniff_format(data: bytes, name: str) -> str:
    """The format of a file by its first bytes, whatever its name says."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data[4:8] == b"ftyp" and data[8:12] in _AVIF_BRANDS:
        return "avif"
    if data.startswith(_TIFF_MARKS):
        return "tiff"
    if data.startswith(b"BM"):
        return "bmp"
    if not data:
        raise ImageError(f"{name}: the file is empty")
    raise ImageError(f"{name}: not an image, or in a format other than {_READABLE}")


def is_untold_animation(data: bytes, format: str) -> bool:
    """Whether a file moves, in the two formats whose decoder gives the first frame without a word of others."""
    if format == "png":
        return b"acTL" in data[: max(data.find(b"IDAT"), 0)]
    return format == "avif" and data[8:12] == b"avis"


def rounding_note(format: str, bits: int) -> str:
    """What becomes of so many bits a channel in a format that holds fewer; "" where it holds them.

    >>> rounding_note("jpeg", 16), rounding_note("png", 16)
    ('JPEG holds 8 bits a channel; rounded from 16', '')
    """
    form = FORMATS[format]
    return f"{form.name} holds {form.max_bits} bits a channel; rounded from {bits}" if bits > form.max_bits else ""


def format_for_path(path: str | Path) -> str:
    """The format in which a file of this name is written."""
    suffix = Path(path).suffix.lower()
    for key, form in FORMATS.items():
        if form.writable and suffix in form.suffixes:
            return key
    raise ImageError(f"{path}: cannot write '{suffix}' files; choose from {', '.join(_WRITABLE)}")


def check_format_fits(format: str, width: int, height: int, name: str = "image") -> None:
    """Raise an error that suggests PNG or TIFF where a format cannot hold that many pixels a side."""
    form = FORMATS[format]
    if max(width, height) > form.max_side:
        raise ImageError(
            f"{name}: {form.name} holds at most {form.max_side:,} pixels a side, the image has "
            f"{width:,}x{height:,}; write PNG or TIFF instead"
        )
