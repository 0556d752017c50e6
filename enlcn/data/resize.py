"""MATLAB's imresize, bit for bit on integer images: a numpy reference and a batched torch twin.

MATLAB resizes one dimension at a time, the one that shrinks most first (rows on a tie), and rounds and clamps
integer images after each pass. Output pixel i of a pass is sum_t weight[i, t] * input[index[i, t]]; both
versions add the taps one after the other in float64, so that they agree to the last bit on every device.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from enlcn.errors import UserError

Border = Literal["mirror", "clamp"]
Kernel = Literal["bicubic", "bilinear", "box", "lanczos3"]


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys' cubic convolution kernel, a = -1/2."""
    x = np.abs(x)
    near = 1.5 * x**3 - 2.5 * x**2 + 1
    far = -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
    return near * (x <= 1) + far * ((x > 1) & (x <= 2))


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def _box(x: np.ndarray) -> np.ndarray:
    return ((x >= -0.5) & (x < 0.5)).astype(np.float64)


def _lanczos3(x: np.ndarray) -> np.ndarray:
    return np.sinc(x) * np.sinc(x / 3) * (np.abs(x) < 3)


# name -> (kernel, width of its support)
KERNELS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "bicubic": (_cubic, 4.0),
    "bilinear": (_triangle, 2.0),
    "box": (_box, 1.0),
    "lanczos3": (_lanczos3, 6.0),
}
BORDERS = ("mirror", "clamp")


@dataclass(frozen=True)
class Taps:
    """One pass: output i reads inputs index[i, :] (out, T) with weight[i, :] (out, T), rows summing to 1."""

    index: np.ndarray
    weight: np.ndarray


@lru_cache(maxsize=256)
def taps(in_length: int, out_length: int, scale: float, kernel: Kernel, antialias: bool, border: Border) -> Taps:
    """Which input pixels make each output pixel, and with which weights; positions as MATLAB counts them."""
    if kernel not in KERNELS:
        raise UserError(f"unknown kernel '{kernel}'; choose from {', '.join(KERNELS)}")
    if border not in BORDERS:
        raise UserError(f"unknown border rule '{border}'; choose from {', '.join(BORDERS)}")
    function, width = KERNELS[kernel]
    stretch = scale if antialias and scale < 1 else 1.0
    width /= stretch

    # MATLAB counts from 1; keeping its formula keeps its rounding.
    position = np.arange(1, out_length + 1) / scale + 0.5 * (1 - 1 / scale)
    left = np.floor(position - width / 2)
    index = left[:, None] + np.arange(math.ceil(width) + 2)
    weight = stretch * function(stretch * (position[:, None] - index))
    weight /= weight.sum(axis=1, keepdims=True)

    index = index.astype(np.int64) - 1
    if border == "clamp":
        index = index.clip(0, in_length - 1)
    else:
        index %= 2 * in_length
        index = np.minimum(index, 2 * in_length - 1 - index)
    used = weight.any(axis=0)
    index, weight = index[:, used], weight[:, used]
    index.flags.writeable = weight.flags.writeable = False  # shared through the cache
    return Taps(index, weight)


def imresize(
    image: np.ndarray,
    scale: float | None = None,
    *,
    size: tuple[int, int] | None = None,
    kernel: Kernel = "bicubic",
    antialias: bool = True,
    border: Border = "mirror",
) -> np.ndarray:
    """Resize image (H, W) or (H, W, C) by `scale` or to `size` (height, width); the dtype is kept.

    `border` says what lies beyond the edge: "mirror" (MATLAB since about 2016) or "clamp" (before).
    """
    for axis, pass_taps in _passes(image.shape[:2], scale, size, kernel, antialias, border):
        moved = np.moveaxis(image, axis, 0)
        weight = pass_taps.weight.reshape(*pass_taps.weight.shape, *[1] * (image.ndim - 1))
        total = np.zeros((len(pass_taps.index), *moved.shape[1:]))
        for tap in range(pass_taps.index.shape[1]):
            total += weight[:, tap] * moved[pass_taps.index[:, tap]]
        if np.issubdtype(image.dtype, np.integer):
            limits = np.iinfo(image.dtype)
            total = _round_half_away(total).clip(limits.min, limits.max)
        image = np.moveaxis(total.astype(image.dtype), 0, axis)
    return np.ascontiguousarray(image)


def imresize_torch(
    images: Tensor,
    scale: float | None = None,
    *,
    size: tuple[int, int] | None = None,
    kernel: Kernel = "bicubic",
    antialias: bool = True,
    border: Border = "mirror",
) -> Tensor:
    """Resize images (..., H, W) by `scale` or to `size` (height, width); as `imresize`, on any device."""
    height, width = images.shape[-2:]
    for axis, pass_taps in _passes((height, width), scale, size, kernel, antialias, border):
        index = torch.from_numpy(pass_taps.index.T.copy()).to(images.device)
        weight = torch.from_numpy(pass_taps.weight.T.copy()).to(images.device)
        source = images.to(torch.float64)
        total = torch.zeros((), dtype=torch.float64, device=images.device)
        for tap in range(len(index)):
            if axis == 0:
                total = total + weight[tap].unsqueeze(-1) * source[..., index[tap], :]
            else:
                total = total + weight[tap] * source[..., index[tap]]
        if not images.dtype.is_floating_point:
            limits = torch.iinfo(images.dtype)
            total = _round_half_away_torch(total).clamp(limits.min, limits.max)
        images = total.to(images.dtype)
    return images


def _passes(
    in_size: tuple[int, ...],
    scale: float | None,
    size: tuple[int, int] | None,
    kernel: Kernel,
    antialias: bool,
    border: Border,
) -> list[tuple[int, Taps]]:
    """The passes in MATLAB's order, each as (axis, taps); axis 0 is the rows."""
    if (scale is None) == (size is None):
        raise UserError("resize needs either a scale or a size")
    if size is not None:
        out_size, scales = size, [out / old for out, old in zip(size, in_size, strict=True)]
    else:
        assert scale is not None
        if scale <= 0:
            raise UserError(f"the resize scale must be positive, not {scale}")
        out_size, scales = (math.ceil(scale * in_size[0]), math.ceil(scale * in_size[1])), [scale, scale]
    if min(*in_size, *out_size) < 1:
        raise UserError(f"cannot resize {in_size[0]}x{in_size[1]} to {out_size[0]}x{out_size[1]} pixels")
    order = sorted((0, 1), key=scales.__getitem__)
    return [(axis, taps(in_size[axis], out_size[axis], scales[axis], kernel, antialias, border)) for axis in order]


def _round_half_away(x: np.ndarray) -> np.ndarray:
    """MATLAB's round; numpy's takes halves to the even neighbour."""
    whole = np.trunc(x)
    return whole + np.sign(x) * (np.abs(x - whole) >= 0.5)


def _round_half_away_torch(x: Tensor) -> Tensor:
    whole = x.trunc()
    return whole + x.sign() * ((x - whole).abs() >= 0.5)
