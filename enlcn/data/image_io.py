"""File <-> Image <-> tensor: the one way in, the one way out, and the only place where the value range changes.

B batch, C channels (1 grey, 3 RGB), H height, W width. Files hold 8 or 16 bits, tensors floats in [0, 1].
"""

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from enlcn.data import pillow_codec, vips_codec
from enlcn.data.image import ANIMATION_NOTE, Image, ImageError, TooManyPixelsError, upright
from enlcn.data.image_formats import (
    FORMATS,
    SUFFIXES,
    check_format_fits,
    format_for_path,
    is_untold_animation,
    rounding_note,
    sniff_format,
)
from enlcn.data.iptc import iptc_note
from enlcn.data.jpeg_quality import jpeg_quality
from enlcn.data.png_text import png_with_texts, texts_of_png
from enlcn.errors import UserError
from enlcn.files import atomic_write, refuse_to_overwrite

__all__ = [
    "MAX_PIXELS",
    "SUFFIXES",
    "Image",
    "ImageError",
    "alpha_to_tensor",
    "check_can_write",
    "check_format_fits",
    "encode_image",
    "from_tensor",
    "has_transparency",
    "load_image",
    "save_image",
    "to_float",
    "to_tensor",
    "to_uint8",
    "to_uint16",
    "writing_notes",
]

log = logging.getLogger(__name__)
Source = str | os.PathLike[str] | bytes | IO[bytes]

MAX_PIXELS = 2**27  # a little over 11,500 x 11,500: 1 GiB where each pixel takes 8 bytes
_MAX_BYTES_PER_PIXEL = 8
_MAX_METADATA_BYTES = 2**26


def load_image(source: Source, *, max_pixels: int = MAX_PIXELS, name: str | None = None) -> Image:
    """Read an image, turned upright as its EXIF orientation says.

    Args:
        source: a path, the bytes of a file, or an open binary file.
        max_pixels: refuse larger images before they are decoded.
        name: what errors call the image; its path unless told.

    Returns:
        Grey or RGB pixels of 8 or 16 bits. Palettes become RGB, CMYK becomes sRGB through its profile.

    Raises:
        ImageError: one line naming the file that is missing, damaged, truncated, too large or no image.
    """
    name = name or _name_of(source)
    data = _read(source, _MAX_BYTES_PER_PIXEL * max_pixels + _MAX_METADATA_BYTES, name)
    format = sniff_format(data, name)
    codec = vips_codec if vips_codec.is_available(format) else pillow_codec
    image, orientation = codec.decode(data, format, max_pixels, name)
    if format == "png":
        image = replace(image, png_texts=texts_of_png(data))
    if format == "jpeg":
        image = replace(image, jpeg_quality=jpeg_quality(data))
    if is_untold_animation(data, format):
        image = replace(image, notes=(*image.notes, ANIMATION_NOTE))
    for note in image.notes:
        log.warning("%s: %s", name, note)
    return upright(image, orientation)


def encode_image(
    image: Image, format: str, *, quality: int | None = None, lossless: bool = False, name: str = "image"
) -> bytes:
    """The bytes of an image file.

    Args:
        image: what to write.
        format: "png", "jpeg", "webp", "avif" or "tiff".
        quality: 1 to 100 for JPEG, WebP and AVIF; None takes the format's default.
        lossless: lossless WebP or AVIF.
        name: what errors call the image.

    16 bits are rounded to 8 for JPEG and WebP and to 12 for AVIF, and IPTC metadata goes into JPEG and TIFF alone; what
    is lost is logged.
    """
    transparent = has_transparency(image)
    check_can_write(
        format, image.width, image.height, transparent=transparent, quality=quality, lossless=lossless, name=name
    )
    form = FORMATS[format]
    if not form.has_grey:
        image = image.as_rgb()
    if not form.has_alpha:
        image = replace(image, alpha=None)
    for note in writing_notes(format, image.bits, image.iptc):
        log.warning("%s: %s", name, note)
    if image.bits > form.max_bits == 8:
        image = _reduced_to_8_bits(image)
    codec = vips_codec if vips_codec.is_available(format) else pillow_codec
    data = codec.encode(image, format, quality or form.quality, lossless, name)
    return png_with_texts(data, image.png_texts) if format == "png" and image.png_texts else data


def check_can_write(
    format: str,
    width: int,
    height: int,
    *,
    transparent: bool,
    quality: int | None = None,
    lossless: bool = False,
    name: str = "image",
) -> None:
    """Raise where a format cannot hold such an image or be written so: to be asked before the work that makes it."""
    if format not in FORMATS or not FORMATS[format].writable:
        writable = ", ".join(key for key, form in FORMATS.items() if form.writable)
        raise ImageError(f"{name}: unknown format '{format}'; choose from {writable}")
    form = FORMATS[format]
    if quality is not None and not 1 <= quality <= 100:
        raise UserError(f"quality must lie between 1 and 100, not {quality}")
    if lossless and form.quality is not None and not form.has_lossless_mode:
        raise ImageError(f"{name}: {form.name} has no lossless mode; write PNG, TIFF, WebP or AVIF instead")
    if transparent and not form.has_alpha:
        raise ImageError(
            f"{name}: {form.name} cannot hold transparency; write PNG, WebP, AVIF or TIFF instead, "
            "or give it a background (--background white)"
        )
    check_format_fits(format, width, height, name)


def writing_notes(format: str, bits: int, iptc: bytes | None) -> tuple[str, ...]:
    """What a format cannot hold of a picture with so many bits a channel and such IPTC records."""
    return tuple(filter(None, (rounding_note(format, bits), iptc_note(format, iptc))))


def has_transparency(image: Image) -> bool:
    """Whether any pixel is not opaque."""
    return image.alpha is not None and bool(image.alpha.min() < np.iinfo(image.alpha.dtype).max)


def save_image(
    image: Image,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    quality: int | None = None,
    lossless: bool = False,
) -> Path:
    """Write an image in the format its suffix names, complete or not at all; see `encode_image`.

    Makes the folder where it is missing. An existing file is an error unless `overwrite`.
    """
    path = Path(path)
    format = format_for_path(path)
    refuse_to_overwrite(path, overwrite)
    data = encode_image(image, format, quality=quality, lossless=lossless, name=str(path))
    with atomic_write(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(data)
    return path


def to_float(values: Tensor) -> Tensor:
    """Integers in [0, 255] (uint8) or [0, 65535] (uint16) -> float32 in [0, 1], any shape."""
    # By a tensor, not a number: CUDA would multiply by that number's rounded reciprocal instead.
    top = torch.full((), torch.iinfo(values.dtype).max, dtype=torch.float32, device=values.device)
    return values.to(torch.float32) / top


def to_uint8(values: Tensor) -> Tensor:
    """Floats, [0, 1] being the range that is kept -> uint8, halves rounded up, any shape."""
    return _to_integer(values, torch.uint8)


def to_uint16(values: Tensor) -> Tensor:
    """Floats, [0, 1] being the range that is kept -> uint16, halves rounded up, any shape."""
    return _to_integer(values, torch.uint16)


def to_tensor(image: Image) -> Tensor:
    """Image -> (1, C, H, W) float32 in [0, 1]."""
    planes = np.ascontiguousarray(image.pixels.transpose(2, 0, 1))
    return to_float(torch.from_numpy(planes)).unsqueeze(0)


def alpha_to_tensor(image: Image) -> Tensor | None:
    """Image -> (1, 1, H, W) float32 in [0, 1], or None where it has no alpha."""
    if image.alpha is None:
        return None
    return to_float(torch.from_numpy(np.ascontiguousarray(image.alpha)))[None, None]


def from_tensor(values: Tensor, like: Image, alpha: Tensor | None = None) -> Image:
    """(1, C, H, W) in [0, 1] -> Image of any size with the depth, profile and metadata of `like`.

    Three channels become grey again, by their mean, where `like` is grey. `alpha` is (1, 1, H, W) in [0, 1].
    """
    if like.is_grey:
        values = values.float().mean(dim=1, keepdim=True)
    rounded = to_uint8 if like.bits == 8 else to_uint16
    pixels = rounded(values)[0].permute(1, 2, 0).contiguous().cpu().numpy()
    return replace(like, pixels=pixels, alpha=None if alpha is None else rounded(alpha)[0, 0].cpu().numpy())


def _to_integer(values: Tensor, dtype: torch.dtype) -> Tensor:
    top = torch.iinfo(dtype).max
    # + 0.5 and floor, not round(): that one takes halves to the even neighbour.
    return (values.to(torch.float32) * top).clamp(0, top).add(0.5).floor().to(dtype)


def _reduced_to_8_bits(image: Image) -> Image:
    def reduce(values: np.ndarray) -> np.ndarray:
        return to_uint8(to_float(torch.from_numpy(np.ascontiguousarray(values)))).numpy()

    return replace(image, pixels=reduce(image.pixels), alpha=None if image.alpha is None else reduce(image.alpha))


def _name_of(source: Source) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "image" if isinstance(source, bytes) else str(getattr(source, "name", "image"))


def _read(source: Source, max_bytes: int, name: str) -> bytes:
    """All bytes of the source, at most `max_bytes`: no image that may be decoded has a larger file."""
    try:
        if isinstance(source, bytes):
            data = source
        elif isinstance(source, str | os.PathLike):
            with Path(source).open("rb") as file:
                data = file.read(max_bytes + 1)
        else:
            data = source.read(max_bytes + 1)
    except FileNotFoundError:
        raise ImageError(f"{name}: no such file") from None
    except OSError as error:
        raise ImageError(f"{name}: cannot be read ({error.strerror or error})") from None
    if len(data) > max_bytes:
        raise TooManyPixelsError(f"{name}: the file has more than {max_bytes:,} bytes, too many for the pixels allowed")
    return data
