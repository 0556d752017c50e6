"""What is compared: the Y or RGB planes of an 8-bit image, without its border."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from enlcn.errors import UserError

Channels = Literal["y", "rgb"]
Pixels = np.ndarray | Tensor

LUMA_OFFSET = 16.0
LUMA_WEIGHTS = (65.481 / 255, 128.553 / 255, 24.966 / 255)  # ITU-R BT.601, as MATLAB's rgb2ycbcr


def rgb_to_y(rgb: Tensor) -> Tensor:
    """Y = 16 + (65.481 R + 128.553 G + 24.966 B) / 255: (..., 3 or 1, H, W) in [0, 255] -> (..., 1, H, W)."""
    red, green, blue = rgb.to(torch.float64).expand(*rgb.shape[:-3], 3, *rgb.shape[-2:]).unbind(-3)
    weighted = LUMA_WEIGHTS[0] * red + LUMA_WEIGHTS[1] * green + LUMA_WEIGHTS[2] * blue
    return (LUMA_OFFSET + weighted).unsqueeze(-3)


def shave_border(planes: Tensor, shave: int) -> Tensor:
    """Drop `shave` pixels on each side: (C, H, W) -> (C, H - 2 shave, W - 2 shave)."""
    height, width = planes.shape[-2:]
    if shave < 0 or min(height, width) <= 2 * shave:
        raise UserError(f"cannot shave {shave} pixels off each side of a {width}x{height} image")
    return planes[..., shave : height - shave, shave : width - shave]


def compared_planes(image: Pixels, shave: int, channels: Channels) -> Tensor:
    """Planes (C, H, W) in float64 of an array (H, W) or (H, W, C), or of a tensor (C, H, W) or (1, C, H, W)."""
    if isinstance(image, np.ndarray):
        array = image[..., None] if image.ndim == 2 else image
        planes = torch.from_numpy(np.ascontiguousarray(np.moveaxis(array, -1, 0)))
    else:
        planes = image.squeeze(0) if image.ndim == 4 else image
    if planes.ndim != 3 or planes.shape[0] not in (1, 3):
        raise ValueError(f"expected one grey or RGB image, got shape {tuple(image.shape)}")
    planes = shave_border(planes.to(torch.float64), shave)
    if channels == "y":
        return rgb_to_y(planes)
    if channels == "rgb":
        return planes
    raise UserError(f"unknown channels '{channels}'; choose from y, rgb")


def compared_pair(a: Pixels, b: Pixels, shave: int, channels: Channels) -> tuple[Tensor, Tensor]:
    """The planes of both images, which must have one shape."""
    if a.shape != b.shape:
        raise UserError(f"cannot compare images of shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return compared_planes(a, shave, channels), compared_planes(b, shave, channels)
