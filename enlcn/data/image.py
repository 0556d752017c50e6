"""An image in memory: pixels, alpha, and what must survive from one file to the next."""

from dataclasses import dataclass, replace

import numpy as np

from enlcn.data.xmp import xmp_upright
from enlcn.errors import UserError

CMYK_NOTE = "its CMYK becomes sRGB"  # networks and most viewers know no other
YCBCR_REFUSAL = "its YCbCr colours are not read in this form; convert it to RGB"
LAB_REFUSAL = "its Lab colours are not read in this form; convert it to RGB"
ANIMATION_NOTE = "is an animation; only its first frame is read"


class ImageError(UserError):
    """An image that cannot be read or written; the message names the file."""


class UnsupportedImageError(ImageError):
    """A sound image of a kind that is not read; the message says what to convert it to."""


class TooManyPixelsError(ImageError):
    """An image that is larger than was allowed."""


@dataclass(frozen=True, eq=False)
class Image:
    """Pixels upright as seen, with their colour profile and metadata.

    Attributes:
        pixels: (H, W, C), uint8 or uint16, C = 1 (grey) or 3 (RGB).
        alpha: (H, W) in the dtype of pixels, not multiplied into them; None where there is none.
        icc: the ICC profile that gives the pixels their colours; None means sRGB.
        exif: the EXIF block from its byte-order mark on, orientation 1.
        xmp: the XMP packet; where it gives a size, the written file gives its own.
        iptc: the records of IPTC metadata, without what wraps them in files.
        png_texts: the text chunks of a PNG file as they are there; for PNG alone.
        dpi: horizontal and vertical resolution.
        jpeg_quality: of the JPEG file it was read from, as far as that can be told; see `jpeg_quality`.
        notes: what the file held that is not here, or not as it was.
    """

    pixels: np.ndarray
    alpha: np.ndarray | None = None
    icc: bytes | None = None
    exif: bytes | None = None
    xmp: bytes | None = None
    iptc: bytes | None = None
    png_texts: bytes = b""
    dpi: tuple[float, float] | None = None
    jpeg_quality: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.pixels.ndim != 3 or self.pixels.shape[2] not in (1, 3) or 0 in self.pixels.shape:
            raise ValueError(f"pixels must be (H, W, 1) or (H, W, 3), not {self.pixels.shape}")
        if self.pixels.dtype not in (np.uint8, np.uint16):
            raise ValueError(f"pixels must be uint8 or uint16, not {self.pixels.dtype}")
        if self.alpha is not None and (
            self.alpha.shape != self.pixels.shape[:2] or self.alpha.dtype != self.pixels.dtype
        ):
            raise ValueError(f"alpha {self.alpha.shape} does not fit pixels {self.pixels.shape}")

    @property
    def height(self) -> int:
        """H."""
        return self.pixels.shape[0]

    @property
    def width(self) -> int:
        """W."""
        return self.pixels.shape[1]

    @property
    def is_grey(self) -> bool:
        """Whether there is one channel."""
        return self.pixels.shape[2] == 1

    @property
    def bits(self) -> int:
        """8 or 16 bits a sample."""
        return self.pixels.dtype.itemsize * 8

    def planes(self) -> np.ndarray:
        """Pixels and alpha together, contiguous: (H, W, C) or (H, W, C + 1)."""
        if self.alpha is None:
            return np.ascontiguousarray(self.pixels)
        return np.ascontiguousarray(np.concatenate([self.pixels, self.alpha[..., None]], axis=2))

    def as_rgb(self) -> "Image":
        """The image with three channels; grey is repeated and loses its grey profile."""
        if not self.is_grey:
            return self
        return replace(self, pixels=self.pixels.repeat(3, axis=2), icc=None)


def check_pixel_count(width: int, height: int, max_pixels: int, name: str) -> None:
    """Raise where the header promises more pixels than may be decoded."""
    if width * height > max_pixels:
        raise TooManyPixelsError(
            f"{name}: {width:,}x{height:,} is {width * height:,} pixels, more than the limit of {max_pixels:,}"
        )


def matching_profile(icc: bytes | None, pixels: np.ndarray) -> bytes | None:
    """The profile where it is one for as many channels as the pixels (H, W, C) have, else None."""
    colour_space = b"GRAY" if pixels.shape[2] == 1 else b"RGB "
    return icc if icc and icc[16:20] == colour_space else None


def split_alpha(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Pixels (H, W, 1 or 3) and alpha (H, W) of planes (H, W, 1 to 4), as views."""
    if planes.shape[2] in (2, 4):
        return planes[..., :-1], planes[..., -1]
    return planes, None


def upright(image: Image, orientation: int) -> Image:
    """The image as seen, given the EXIF orientation (1 to 8) its stored pixels have."""

    def turn(stored: np.ndarray) -> np.ndarray:
        if orientation in (5, 6, 7, 8):
            stored = stored.swapaxes(0, 1)
        if orientation in (3, 4, 7, 8):
            stored = stored[::-1]
        if orientation in (2, 3, 6, 7):
            stored = stored[:, ::-1]
        return np.ascontiguousarray(stored)  # torch takes no views that run backwards

    if orientation not in range(2, 9):
        return image
    dpi = image.dpi
    if dpi is not None and orientation in (5, 6, 7, 8):
        dpi = dpi[::-1]
    alpha = None if image.alpha is None else turn(image.alpha)
    xmp = None if image.xmp is None else xmp_upright(image.xmp)
    return replace(image, pixels=turn(image.pixels), alpha=alpha, dpi=dpi, xmp=xmp)
