"""Image files too large for memory, through libvips: read strip by strip, written from raw scratch files."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from enlcn.data import vips_codec, vips_colours, vips_errors
from enlcn.data.exif import orientation_of, with_upright_orientation, without_prefix
from enlcn.data.image import ANIMATION_NOTE, Image, ImageError, matching_profile, upright
from enlcn.data.image_formats import FORMATS, is_untold_animation, sniff_format
from enlcn.data.iptc import iptc_of, iptc_of_tiff
from enlcn.data.jpeg_quality import jpeg_quality_of_file
from enlcn.data.png_text import add_texts_to_png_file, texts_of_png_file
from enlcn.data.raw_as_tiff import RawAsTiff
from enlcn.data.tiff_exif import add_metadata_to_tiff_file, exif_of_tiff_file
from enlcn.data.tiff_ycbcr import ycbcr_of_tiff
from enlcn.data.xmp import xmp_upright

log = logging.getLogger(__name__)

_STRIP_BYTES = 2**22
_SNIFFED = 2**16  # bytes that tell a format, and whether it moves


@dataclass(frozen=True)
class RawPixels:
    """Pixels of one kind in a raw file or in memory, (H, W, C) row by row.

    Attributes:
        shape: (H, W, C).
        dtype: np.uint8 or np.uint16.
        handle: an open file that begins with them, or None.
        array: the pixels themselves where there is no file.
    """

    shape: tuple[int, int, int]
    dtype: np.dtype
    handle: int | None = None
    array: np.ndarray | None = None


class ImageStream:
    """An image file opened for one reading from top to bottom; sizes and strips are upright.

    Attributes:
        height, width, channels, has_alpha, dtype: what the pixels are.
        like: a one-pixel image that carries profile and metadata.
        notes: as in `Image`.
    """

    def __init__(self, path: Path):
        self._path = path
        with path.open("rb") as file:
            start = file.read(_SNIFFED)
        self._format = sniff_format(start, str(path))
        self.notes: tuple[str, ...] = (ANIMATION_NOTE,) if is_untold_animation(start, self._format) else ()
        if not vips_codec.is_available(self._format):
            raise ImageError(f"{path}: pictures this large need pyvips: pip install 'pyvips[binary]'")
        self._vips = vips_codec.vips()
        self._ycbcr = ycbcr_of_tiff(path) if self._format == "tiff" else None
        self._image = self._open(vips_errors.fail_on(self._format))
        exif = without_prefix(vips_codec.blob(self._image, "exif-data"))
        self._orientation = 1 if self._format == "avif" else orientation_of(exif)
        if self._format == "tiff":
            exif = exif_of_tiff_file(path)
            self._orientation = self._image.get("orientation") if self._image.get_typeof("orientation") else 1
        stored = (self._image.height, self._image.width)
        self.height, self.width = stored[::-1] if self._orientation >= 5 else stored
        self.has_alpha = self._image.bands in (2, 4)
        self.channels = self._image.bands - self.has_alpha
        self.dtype = np.dtype(np.uint8 if self._image.format == "uchar" else np.uint16)
        pixel = np.zeros((1, 1, self.channels), self.dtype)
        xmp = vips_codec.blob(self._image, "xmp-data")
        like = Image(
            pixel,
            icc=matching_profile(vips_codec.blob(self._image, "icc-profile-data"), pixel),
            exif=with_upright_orientation(exif) if exif else None,
            xmp=xmp_upright(xmp) if xmp and self._format == "avif" else xmp,
            iptc=iptc_of_tiff(path) if self._format == "tiff" else iptc_of(vips_codec.blob(self._image, "iptc-data")),
            png_texts=texts_of_png_file(path) if self._format == "png" else b"",
            dpi=vips_codec.dpi_of(self._image),
            jpeg_quality=jpeg_quality_of_file(path) if self._format == "jpeg" else None,
        )
        self.like = upright(like, self._orientation)

    def _open(self, level: str) -> Any:
        try:
            with vips_codec.READING:
                opened = self._vips.Image.new_from_file(str(self._path), access="sequential", fail_on=level)
                self.notes = tuple(dict.fromkeys((*self.notes, *vips_colours.notes_of(opened))))
                return vips_colours.to_grey_or_rgb(opened, str(self._path), self._ycbcr)
        except self._vips.Error as error:
            raise self._damaged(error) from None

    def strips(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray | None]]:
        """(top, left, pixels (h, w, C), alpha (h, w) or None) of pieces that together are the upright image.

        Where a harmless warning interrupts the reading, it begins again: pieces may come twice.
        """
        try:
            yield from self._read_strips()
            return
        except self._vips.Error as error:
            if not vips_errors.is_harmless(error, self._format):
                raise self._damaged(error) from None
        self._image = self._open("error")
        try:
            yield from self._read_strips()
        except self._vips.Error as error:
            raise self._damaged(error) from None

    def _read_strips(self) -> Iterator[tuple[int, int, np.ndarray, np.ndarray | None]]:
        stored_height, stored_width, bands = self._image.height, self._image.width, self._image.bands
        region = self._vips.Region.new(self._image)
        rows = max(1, _STRIP_BYTES // (stored_width * bands * self.dtype.itemsize))
        for first in range(0, stored_height, rows):
            last = min(first + rows, stored_height)
            with vips_codec.READING:
                data = region.fetch(0, first, stored_width, last - first)
            planes = np.frombuffer(data, self.dtype).reshape(last - first, stored_width, bands)
            planes = vips_colours.widened(planes, self._image, self._format)
            alpha = planes[..., -1] if self.has_alpha else None
            piece = upright(Image(planes[..., : self.channels], alpha), self._orientation)
            # Which way the strip's place runs once turned: see `upright`.
            mirrored = self._orientation in ((6, 7) if self._orientation >= 5 else (3, 4))
            place = stored_height - last if mirrored else first
            top, left = (0, place) if self._orientation >= 5 else (place, 0)
            yield top, left, piece.pixels, piece.alpha

    def _damaged(self, error: Exception) -> ImageError:
        return vips_errors.unreadable(error, self._format, str(self._path))


def save_raw(
    pixels: RawPixels,
    alpha: RawPixels | None,
    like: Image,
    path: Path,
    format: str,
    *,
    quality: int | None = None,
    lossless: bool = False,
) -> None:
    """Write raw pixels as an image file with the profile and metadata of `like`, in little memory."""
    vips = vips_codec.vips()
    image = _open_raw(vips, pixels)
    if alpha is not None:
        image = image.bandjoin(_open_raw(vips, alpha))
    bits = pixels.dtype.itemsize * 8
    is_grey = pixels.shape[2] == 1
    if is_grey and not FORMATS[format].has_grey:
        grey = image[0]
        image = grey.bandjoin([grey, grey, image[1]] if alpha is not None else [grey, grey])
        is_grey, like = False, replace(like, icc=None)
    if bits > FORMATS[format].max_bits and FORMATS[format].max_bits == 8:
        image, bits = ((image + 128) / 257).floor().cast("uchar"), 8
    image = vips_codec.with_metadata(image, like, format, bits, is_grey)
    nbytes = pixels.shape[0] * pixels.shape[1] * pixels.shape[2] * pixels.dtype.itemsize
    options = vips_codec.save_options(format, bits, nbytes, quality or FORMATS[format].quality, lossless)
    options |= vips_codec.without_new_exif(format, like)
    try:
        getattr(image, f"{vips_codec.LOADERS[format]}save")(str(path), **options)
    except vips.Error as error:
        kind = FORMATS[format].name
        raise ImageError(f"{path}: cannot be written as {kind}{vips_errors.because(error)}") from None
    if format == "png" and like.png_texts:
        add_texts_to_png_file(path, like.png_texts)
    told = like.exif is not None or like.iptc is not None
    if format == "tiff" and told and not add_metadata_to_tiff_file(path, like.exif, like.iptc):
        log.warning("%s: written as BigTIFF, which takes no EXIF and IPTC here; profile and XMP are kept", path)


def _open_raw(vips: Any, raw: RawPixels) -> Any:
    height, width, channels = raw.shape
    if raw.handle is None:
        assert raw.array is not None
        kind = "uchar" if raw.dtype == np.uint8 else "ushort"
        return vips.Image.new_from_memory(np.ascontiguousarray(raw.array), width, height, channels, kind)
    file = RawAsTiff(raw.handle, raw.shape, raw.dtype)
    source = vips.SourceCustom()
    source.on_read(file.read)
    source.on_seek(file.seek)
    image = vips.Image.new_from_source(source, "", access="sequential")
    return image.copy(interpretation="multiband")
