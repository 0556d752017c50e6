"""What goes wrong in libvips, told in one line: which faults leave a picture whole, and which are no damage."""

import re
from typing import Any

from enlcn.data.image import LAB_REFUSAL, ImageError, UnsupportedImageError
from enlcn.data.image_formats import FORMATS

# Missing data is only a warning to libjpeg, and to libtiff in tiles: grey or black would take its place.
_STRICTLY_READ = ("jpeg", "tiff")
_HARMLESS = re.compile(r"VipsJpeg: Corrupt JPEG data: \d+ extraneous bytes before marker")
# Of a codec that libvips was built without, such as "ZSTD compression support is not configured".
_NOT_BUILT_IN = re.compile(r"(\S+) (?:de)?compression (?:support )?(?:is )?not (?:configured|supported)")


def is_harmless(error: Any, format: str) -> bool:
    """Whether a strictly read file failed for warnings alone that leave its pixels whole."""
    lines = told(error)
    if format == "jpeg" and not lines:  # libtiff warns without a word; libjpeg's have been cleared by another thread
        return False
    return format in _STRICTLY_READ and all(_HARMLESS.match(line) for line in lines)


def fail_on(format: str) -> str:
    """How grave a fault must be to end the reading of a file."""
    return "warning" if format in _STRICTLY_READ else "error"


def unreadable(error: Any, format: str, name: str) -> ImageError:
    """What to raise where libvips could not read a file."""
    if "labq" in str(error):  # of 8 bits, which it takes for a packing of its own
        return UnsupportedImageError(f"{name}: {LAB_REFUSAL}")
    if missing := _NOT_BUILT_IN.search(str(error)):
        reason = f"its {missing[1]} compression is not read here; save it with LZW or Deflate"
        return UnsupportedImageError(f"{name}: {reason}")
    return ImageError(f"{name}: damaged or truncated {FORMATS[format].name} file{because(error)}")


def because(error: Any) -> str:
    """Why libvips failed, in brackets, to follow what it failed at; nothing where it does not say."""
    return f" ({lines[0]})" if (lines := told(error)) else ""


def told(error: Any) -> list[str]:
    """libvips' own words, without the lines that only say where it was."""
    lines = [line.strip() for line in str(error).splitlines()]
    return [line for line in lines if line and not line.startswith("unable to") and not line.endswith(": load error")]
