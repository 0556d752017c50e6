"""What libvips opens, as grey or RGB of 8 or 16 bits: the colours that files may have besides, and their notes."""

from typing import Any

import numpy as np

from enlcn.data.image import CMYK_NOTE, YCBCR_REFUSAL, UnsupportedImageError
from enlcn.data.tiff_ycbcr import YCbCr

DTYPES: dict[str, np.dtype] = {"uchar": np.dtype(np.uint8), "ushort": np.dtype(np.uint16)}
_DEVICE_INDEPENDENT = ("lab", "labs", "labq", "xyz", "lch", "cmc")


def notes_of(opened: Any) -> tuple[str, ...]:
    """What an opened file holds that is not read, or not as it is."""
    pages = opened.get("n-pages") if opened.get_typeof("n-pages") else 1
    cmyk = (CMYK_NOTE,) if opened.interpretation == "cmyk" else ()
    return (*cmyk, f"has {pages} pages or frames; only the first is read") if pages > 1 else cmyk


def to_grey_or_rgb(image: Any, name: str, ycbcr: YCbCr | None = None) -> Any:
    """One to four bands of 8 or 16 bits: CMYK goes through its profile, Lab to sRGB, YCbCr of TIFF files to RGB."""
    if ycbcr is not None:
        image = _from_ycbcr(image, ycbcr, name)
    if image.interpretation == "cmyk":
        depth = 16 if image.format == "ushort" else 8
        image = image.icc_transform(
            "srgb", embedded=True, input_profile="cmyk", depth=depth, black_point_compensation=True
        )
    elif image.interpretation in _DEVICE_INDEPENDENT:
        image = image.colourspace("srgb")
        image.remove("icc-profile-data")
    if image.format not in DTYPES:
        raise UnsupportedImageError(f"{name}: has {image.format} samples; convert it to 8 or 16 bits a channel")
    if image.bands > 4:
        told = f"has {image.bands} channels; only grey and RGB, with or without alpha, are read"
        raise UnsupportedImageError(f"{name}: {told}")
    return image


def _from_ycbcr(image: Any, ycbcr: YCbCr, name: str) -> Any:
    """RGB of an opened file with such samples."""
    if ycbcr.bits != 8 or image.format != "uchar" or image.bands < 3:
        raise UnsupportedImageError(f"{name}: {YCBCR_REFUSAL}")
    if ycbcr.is_subsampled:  # libtiff makes RGBA of these, as opaque as they are
        return image[:3]
    matrix, offset = ycbcr.to_rgb()
    rgb = (image[:3].recomb(matrix.tolist()) + offset.tolist()).rint().cast("uchar")
    colours = rgb.bandjoin(image[3]) if image.bands > 3 else rgb
    return colours.copy(interpretation="srgb")


def widened(planes: np.ndarray, image: Any, format: str) -> np.ndarray:
    """Samples of 10 and 12 bits, whose low bits libvips leaves empty, over all 16: white becomes 65,535."""
    depth = image.get("heif-bitdepth") if format == "avif" else 8
    return planes | planes >> depth if depth in (10, 12) else planes
