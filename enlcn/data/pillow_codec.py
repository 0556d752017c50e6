"""Image files through Pillow, 8 bit: the fallback where libvips is absent, and the reader of what it lacks."""

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from enlcn.data.exif import EXIF_PREFIX, orientation_of, with_upright_orientation, without_prefix
from enlcn.data.image import (
    CMYK_NOTE,
    LAB_REFUSAL,
    YCBCR_REFUSAL,
    Image,
    ImageError,
    UnsupportedImageError,
    check_pixel_count,
    matching_profile,
    split_alpha,
)
from enlcn.data.image_formats import FORMATS
from enlcn.data.iptc import iptc_of, iptc_of_tiff, jpeg_block
from enlcn.data.tiff_exif import exif_of_tiff, tiff_with_metadata
from enlcn.data.tiff_ycbcr import ycbcr_of_tiff
from enlcn.data.xmp import xmp_of_size, xmp_upright
from enlcn.shared_scope import SharedScope

_PILLOW_NAMES = {"png": "PNG", "jpeg": "JPEG", "webp": "WEBP", "avif": "AVIF", "tiff": "TIFF", "bmp": "BMP"}
_PNG_DEPTH_OFFSET = 24
_TIFF_BITS_TAG, _TIFF_ORIENTATION_TAG = 258, 274
_PHOTOSHOP_IPTC = 0x0404
_APP13 = b"\xff\xed"


@contextmanager
def _by_the_callers_limit() -> Iterator[None]:
    from PIL import Image as PillowImage

    limit, PillowImage.MAX_IMAGE_PIXELS = PillowImage.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        PillowImage.MAX_IMAGE_PIXELS = limit


# While files are opened, Pillow neither warns nor has a limit of pixels of its own: whoever opens one checks its size.
OPENING = SharedScope(_by_the_callers_limit)


def decode(data: bytes, format: str, max_pixels: int, name: str) -> tuple[Image, int]:
    """The stored image, not yet turned upright, and its EXIF orientation."""
    from PIL import Image as PillowImage

    notes: list[str] = []
    try:
        with OPENING:
            opened = PillowImage.open(io.BytesIO(data), formats=[_PILLOW_NAMES[format]])
            check_pixel_count(opened.width, opened.height, max_pixels, name)
            if _bits(opened, data, format) > 8 and not opened.mode.startswith("I;16"):
                notes.append("read as 8 bits a channel; install pyvips to keep all of them")
            if opened.mode == "CMYK":
                notes.append(CMYK_NOTE)
            if format == "tiff" and (ycbcr := ycbcr_of_tiff(data)) is not None and ycbcr.is_subsampled:
                raise UnsupportedImageError(f"{name}: {YCBCR_REFUSAL}")
            is_turned = format == "tiff" and opened.tag_v2.get(_TIFF_ORIENTATION_TAG, 1) != 1  # type: ignore[attr-defined]
            xmp = opened.info.get("xmp")  # of a turned TIFF, Pillow would take parts out
            opened.load()  # turns a TIFF upright
            orientation = 1 if format == "tiff" else orientation_in(opened)
            planes, icc = _to_grey_or_rgb(opened, name)
    except ImageError:
        raise
    # Pillow's readers raise whatever Python raised in them: struct.error, IndexError, OverflowError...
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ImageError(f"{name}: damaged or truncated {FORMATS[format].name} file ({reason})") from None
    pixels, alpha = split_alpha(planes if planes.ndim == 3 else planes[..., None])
    exif, dpi = opened.info.get("exif"), opened.info.get("dpi")
    xmp = opened.info.get("xmp") if xmp is None else xmp  # PNG files may tell it after the pixels
    exif = exif_of_tiff(data) if format == "tiff" else without_prefix(exif)
    xmp = xmp.encode() if isinstance(xmp, str) else xmp
    decoded = Image(
        pixels,
        alpha,
        icc=matching_profile(icc, pixels),
        exif=with_upright_orientation(exif) if exif else None,
        xmp=xmp_upright(xmp) if xmp and is_turned else xmp,
        iptc=iptc_of_tiff(data) if format == "tiff" else _iptc_of_jpeg(opened),
        dpi=(float(dpi[0]), float(dpi[1])) if dpi and min(dpi) > 1 else None,  # 1: of TIFF files that tell none
        notes=tuple(notes),
    )
    return decoded, orientation


def orientation_in(opened: Any) -> int:
    """The EXIF orientation of an opened file that is no TIFF; Pillow's own reading of EXIF also takes that of XMP."""
    opened.getexif()  # of PNG files that tell it after the pixels
    return orientation_of(without_prefix(opened.info.get("exif")))


def encode(image: Image, format: str, quality: int | None, lossless: bool, name: str) -> bytes:
    """The bytes of an image file."""
    from PIL import Image as PillowImage

    if image.bits > 8:
        raise ImageError(f"{name}: writing 16 bits a channel needs pyvips: pip install 'pyvips[binary]'")
    if format == "avif" and lossless:
        raise ImageError(f"{name}: lossless AVIF needs pyvips: pip install 'pyvips[binary]'")
    planes = image.planes()
    encoded = PillowImage.fromarray(planes[..., 0] if planes.shape[2] == 1 else planes)
    options = _save_options(format, quality, lossless)
    kept: dict[str, Any] = {"icc_profile": image.icc, "dpi": image.dpi}
    if format != "tiff" and image.exif is not None:
        kept["exif"] = EXIF_PREFIX + image.exif
    if format in ("jpeg", "webp", "avif"):
        kept["xmp"] = None if image.xmp is None else xmp_of_size(image.xmp, image.width, image.height)
    if format == "jpeg" and image.iptc and (block := jpeg_block(image.iptc)) is not None:
        kept["extra"] = _APP13 + struct.pack(">H", 2 + len(block)) + block
    options |= {key: value for key, value in kept.items() if value is not None}
    buffer = io.BytesIO()
    try:
        encoded.save(buffer, _PILLOW_NAMES[format], **options)
    except (OSError, ValueError) as error:
        raise ImageError(f"{name}: cannot be written as {FORMATS[format].name} ({error})") from None
    data = buffer.getvalue()
    return tiff_with_metadata(data, image.exif, image.iptc) if format == "tiff" else data


def _save_options(format: str, quality: int | None, lossless: bool) -> dict[str, Any]:
    if format == "jpeg":
        return {"quality": quality, "subsampling": 0, "optimize": True}
    if format == "webp":
        return {"quality": quality, "lossless": lossless, "exact": True}
    if format == "avif":
        return {"quality": quality, "subsampling": "4:4:4"}
    return {"compression": "tiff_deflate"} if format == "tiff" else {}


def refuse_mode(mode: str, name: str) -> None:
    """An error for pictures of a mode of Pillow's whose samples are not read."""
    if mode in ("I", "F"):
        raise UnsupportedImageError(f"{name}: has 32-bit samples; convert it to 8 or 16 bits a channel")
    if mode == "LAB":
        raise UnsupportedImageError(f"{name}: {LAB_REFUSAL}")


def _to_grey_or_rgb(image: Any, name: str) -> tuple[np.ndarray, bytes | None]:
    """Planes (H, W) or (H, W, 2 to 4) of grey or RGB with or without alpha, and their profile."""
    icc = image.info.get("icc_profile")
    if image.mode == "CMYK":
        return _cmyk_to_srgb(image, icc)
    refuse_mode(image.mode, name)
    if image.mode.startswith("I;16"):  # the one 16-bit kind that Pillow keeps
        return np.asarray(image).astype(np.uint16), icc
    has_alpha = image.mode.endswith(("A", "a")) or "transparency" in image.info
    is_grey = image.mode in ("1", "L", "LA", "La")
    target = {(True, True): "LA", (True, False): "L", (False, True): "RGBA", (False, False): "RGB"}
    return np.asarray(image.convert(target[is_grey, has_alpha])), icc


def _cmyk_to_srgb(image: Any, icc: bytes | None) -> tuple[np.ndarray, bytes | None]:
    from PIL import ImageCms

    converted = through_cmyk_profile(image, icc)
    if converted is None:
        return np.asarray(image.convert("RGB")), None
    return np.asarray(converted), ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def through_cmyk_profile(image: Any, icc: bytes | None) -> Any:
    """A CMYK image of Pillow's in sRGB by its profile; None where that is absent, damaged or one for other colours."""
    from PIL import ImageCms

    if icc is None or icc[16:20] != b"CMYK":
        return None
    try:
        embedded = ImageCms.ImageCmsProfile(io.BytesIO(icc))
        return ImageCms.profileToProfile(image, embedded, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):
        return None


def _iptc_of_jpeg(image: Any) -> bytes | None:
    """The IPTC records of an opened JPEG file."""
    blocks = image.info.get("photoshop")
    return iptc_of(blocks.get(_PHOTOSHOP_IPTC)) if isinstance(blocks, dict) else None


def _bits(image: Any, data: bytes, format: str) -> int:
    """Bits a sample in the file, which Pillow's modes do not tell."""
    if format == "png":
        return data[_PNG_DEPTH_OFFSET]
    if format == "tiff":
        return max(image.tag_v2.get(_TIFF_BITS_TAG, (8,)))
    return 8
