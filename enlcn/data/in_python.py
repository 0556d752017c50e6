"""Pictures as Python programs hold them, arrays, tensors and Pillow's images, as an `Image`, and saved like one.

H rows, W columns, C channels: grey, grey and alpha, RGB, RGBA.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from enlcn.data import image_io
from enlcn.data.exif import with_upright_orientation, without_prefix
from enlcn.data.image import Image, matching_profile, split_alpha
from enlcn.data.image_formats import format_for_path
from enlcn.data.image_io import to_uint16
from enlcn.data.pillow_codec import through_cmyk_profile
from enlcn.errors import UserError

# As far as bicubic interpolation goes beyond black and white; whatever reaches further is in another range.
LOWEST, HIGHEST = -0.25, 1.25
# What Pillow's modes become; all others become RGB.
_PIL_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "PA": "RGBA", "RGBA": "RGBA", "RGBa": "RGBA"}


def save_image(
    image: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    quality: int | None = None,
    lossless: bool = False,
) -> Path:
    """Write a picture in the format that its suffix names, complete or not at all, and make the folder if need be.

    Args:
        image: what `enlcn.upscale` gives: an `Image`; an array (H, W) or (H, W, 1 to 4), uint8, uint16 or floats in
            [0, 1]; a tensor (1 to 4, H, W) of floats in [0, 1]; a PIL image. Floats are written with 16 bits a channel
            where the format has them.
        path: where to.
        overwrite: replace what is there; else that is an error.
        quality: 1 to 100 for JPEG, WebP and AVIF; None takes the format's default.
        lossless: lossless WebP or AVIF.
    """
    path = Path(path)
    format_for_path(path)
    if not overwrite and os.path.lexists(path) and not path.is_dir():
        raise UserError(f"{path}: exists already; pass overwrite=True to replace it")
    return image_io.save_image(as_image(image), path, overwrite=overwrite, quality=quality, lossless=lossless)


def as_image(picture: Any) -> Image:
    """An `Image` of whatever `save_image` takes."""
    if isinstance(picture, Image):
        return picture
    if isinstance(picture, np.ndarray):
        return image_of_array(picture)
    if isinstance(picture, Tensor):
        return image_of_tensor(picture)
    if is_pil(picture):
        return image_of_pil(picture)
    raise UserError(f"cannot save a {type(picture).__name__}; give an array, a tensor, a PIL image or an Image")


def is_pil(picture: Any) -> bool:
    """Whether something is an image of Pillow's, which need not be imported for others."""
    return type(picture).__module__.startswith("PIL.")


def image_of_array(array: np.ndarray) -> Image:
    """(H, W) or (H, W, C); floats get 16 bits, finer than any picture."""
    planes = array[..., None] if array.ndim == 2 else array
    if planes.ndim != 3 or not 1 <= planes.shape[2] <= 4 or 0 in planes.shape:
        raise UserError(f"an array must be (H, W) or (H, W, 1 to 4), not {array.shape}")
    if np.issubdtype(array.dtype, np.floating):
        _require_unit_range(float(planes.min()), float(planes.max()))
        planes = to_uint16(torch.from_numpy(np.ascontiguousarray(planes, np.float32))).numpy()
    elif array.dtype not in (np.uint8, np.uint16):
        raise UserError(f"an array must be uint8, uint16 or float, not {array.dtype}")
    return Image(*split_alpha(planes))


def image_of_tensor(tensor: Tensor) -> Image:
    """(C, H, W), floats of any kind on any device."""
    require_floats(tensor)
    if tensor.ndim != 3 or not 1 <= tensor.shape[0] <= 4:
        raise UserError(f"a tensor must be (1 to 4, H, W), not {tuple(tensor.shape)}")
    return image_of_array(tensor.detach().permute(1, 2, 0).float().cpu().numpy())


def require_floats(tensor: Tensor) -> None:
    """An error for tensors of whole numbers, whose range nothing tells."""
    if not tensor.is_floating_point():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise UserError(f"a tensor must be floats in [0, 1], not {kind}; convert it, bytes by tensor.float() / 255")


def image_of_pil(image: Any) -> Image:
    """Turned upright as its EXIF says, with profile and metadata; CMYK becomes sRGB."""
    from PIL import ImageOps

    if image.mode == "F":
        raise UserError("a PIL image of mode F has no fixed range; give its array scaled to [0, 1]")
    image = without_cmyk(ImageOps.exif_transpose(image))
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise UserError(f"a PIL image of mode {image.mode} must hold 16-bit values")
        pixels = image_of_array(values.astype(np.uint16))
    else:
        mode = _PIL_MODES.get(image.mode, "RGBA" if "transparency" in image.info else "RGB")
        pixels = image_of_array(np.asarray(image.convert(mode)))
    icc, exif, xmp, dpi = (image.info.get(key) for key in ("icc_profile", "exif", "xmp", "dpi"))
    exif = without_prefix(exif)
    return replace(
        pixels,
        icc=matching_profile(icc, pixels.pixels),
        exif=with_upright_orientation(exif) if exif else None,
        xmp=xmp.encode() if isinstance(xmp, str) else xmp,
        dpi=(float(dpi[0]), float(dpi[1])) if dpi and min(dpi) > 1 else None,
    )


def without_cmyk(image: Any) -> Any:
    """A PIL image in CMYK through its profile to sRGB, as files are read; everything else as it is."""
    if image.mode != "CMYK":
        return image
    kept = {key: value for key, value in image.info.items() if key != "icc_profile"}
    converted = through_cmyk_profile(image, image.info.get("icc_profile"))
    image = image.convert("RGB") if converted is None else converted
    image.info = kept
    return image


def _require_unit_range(lowest: float, highest: float) -> None:
    if not (lowest >= LOWEST and highest <= HIGHEST):  # NaN fails both
        advice = "divide bytes by 255, or clip what a network gave"
        raise UserError(f"floats must lie in [0, 1], these reach from {lowest:g} to {highest:g}; {advice}")
