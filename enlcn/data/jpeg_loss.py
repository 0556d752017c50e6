"""What JPEG loses of a picture: its lossy half as tensor arithmetic, for batches whose qualities differ.

Baseline JPEG as libjpeg writes and reads it: YCbCr of 8 bits, chroma as it is or halved (4:2:0), 8x8 blocks, its
quantisation tables scaled by the quality, chroma interpolated on the way back. Entropy coding loses nothing and is left
out. What lies halfway between two levels is common, in flat blocks above all, and must not be left to rounding errors:
arithmetic is float64, and halves are lifted over the edge by far more than its errors.

Axes: B batch, C channels, n blocks along a side.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from enlcn.data.jpeg_tables import CHROMA_STEPS, LUMA_STEPS, steps_at

_BLOCK = 8
_UNIT = 2 * _BLOCK  # pixels under one block of halved chroma
_HALF = 0.5 + 1e-6  # of a level
_CENTRE = 128.0  # of the range: chroma's zero, and what blocks are centred by
# ITU-T T.871 (JFIF): Y, Cb, Cr from R, G, B, and back.
_TO_YCBCR = ((0.299, 0.587, 0.114), (-0.168735892, -0.331264108, 0.5), (0.5, -0.418687589, -0.081312411))
_TO_RGB = ((1.0, 0.0, 1.402), (1.0, -0.344136286, -0.714136286), (1.0, 1.772, 0.0))


@dataclass(frozen=True)
class JpegConstants:
    """Numbers that JPEG is made of, float64, on the device of the images: a captured graph cannot bring them there.

    Attributes:
        luma_steps, chroma_steps: quantisation steps by quality, (101, 8, 8); those of 0 are not used.
        cosines: the orthonormal cosine transform of 8 values, (8, 8).
        to_ycbcr, to_rgb: colours as columns times these, (3, 3).
        zero: of Y, Cb, Cr, (3, 1, 1).
    """

    luma_steps: Tensor
    chroma_steps: Tensor
    cosines: Tensor
    to_ycbcr: Tensor
    to_rgb: Tensor
    zero: Tensor

    @staticmethod
    def on(device: torch.device) -> "JpegConstants":
        """Made anew."""
        luma, chroma = ([steps_at(table, max(q, 1)) for q in range(101)] for table in (LUMA_STEPS, CHROMA_STEPS))
        zero = [[[0.0]], [[_CENTRE]], [[_CENTRE]]]
        made = (luma, chroma, _cosines(), _TO_YCBCR, _TO_RGB, zero)
        return JpegConstants(*(torch.tensor(each, dtype=torch.float64, device=device) for each in made))


def jpeg_round_trip(images: Tensor, quality: Tensor, halved: Tensor, constants: JpegConstants) -> Tensor:
    """What comes back of each image from a JPEG file.

    Args:
        images: (B, 3, H, W) uint8, RGB.
        quality: 1 to 100 for each, as libjpeg counts it, (B,) int64.
        halved: whether its chroma is kept at half the size, (B,) bool.
        constants: on the same device.

    Returns:
        (B, 3, H, W) uint8.
    """
    height, width = images.shape[-2:]
    bottom, right = (-length % _UNIT for length in (height, width))
    rgb = pad(images.double(), (0, right, 0, bottom), mode="replicate")
    luma, chroma = _rounded(_mixed(rgb, constants.to_ycbcr) + constants.zero).split((1, 2), 1)
    luma_steps, chroma_steps = (steps[quality] for steps in (constants.luma_steps, constants.chroma_steps))
    luma = _quantised(luma, luma_steps, constants.cosines)
    small = _doubled(_quantised(_halved(chroma), chroma_steps, constants.cosines))
    whole = _quantised(chroma, chroma_steps, constants.cosines)
    chroma = torch.where(halved[:, None, None, None], small, whole)
    rgb = _rounded(_mixed(torch.cat((luma, chroma), 1) - constants.zero, constants.to_rgb))
    return rgb[..., :height, :width].to(torch.uint8)


def _mixed(images: Tensor, matrix: Tensor) -> Tensor:
    """Each pixel's three values times a 3x3 matrix. (B, 3, H, W) -> (B, 3, H, W)."""
    return (matrix[:, :, None, None] * images[:, None]).sum(2)


def _quantised(planes: Tensor, steps: Tensor, cosines: Tensor) -> Tensor:
    """Each 8x8 block's cosine coefficients rounded to whole steps. (B, C, 8n, 8n), (B, 8, 8) -> (B, C, 8n, 8n)."""
    rows, columns = (length // _BLOCK for length in planes.shape[-2:])
    blocks = (planes - _CENTRE).unflatten(-1, (columns, _BLOCK)).unflatten(-3, (rows, _BLOCK)).transpose(-3, -2)
    coefficients = cosines @ blocks @ cosines.mT  # (B, C, n, n, 8, 8)
    steps = steps[:, None, None, None]
    levels = coefficients.sign() * (coefficients.abs() / steps + _HALF).floor()  # halves away from zero, as libjpeg's
    blocks = cosines.mT @ (levels * steps) @ cosines
    return _rounded(blocks.transpose(-3, -2).flatten(-2).flatten(-3, -2) + _CENTRE)


def _cosines() -> list[list[float]]:
    angle = math.pi / (2 * _BLOCK)
    lengths = [math.sqrt((1 if row == 0 else 2) / _BLOCK) for row in range(_BLOCK)]
    return [[lengths[row] * math.cos((2 * at + 1) * row * angle) for at in range(_BLOCK)] for row in range(_BLOCK)]


def _halved(planes: Tensor) -> Tensor:
    """The mean of every 2x2, halves rounded down and up in turns. (B, C, H, W) -> (B, C, H/2, W/2)."""
    total = planes.unflatten(-1, (-1, 2)).sum(-1).unflatten(-2, (-1, 2)).sum(-2)
    bias = 1 + torch.arange(total.shape[-1], device=planes.device) % 2
    return ((total + bias) / 4).floor()


def _doubled(planes: Tensor) -> Tensor:
    """Twice as high and wide, three parts of the nearer value and one of the next. (B, C, H, W) -> (B, C, 2H, 2W)."""
    rows = _between(planes.mT).mT
    total = _between(rows)
    bias = 8 - torch.arange(total.shape[-1], device=planes.device) % 2
    return ((total + bias) / 16).floor()


def _between(planes: Tensor) -> Tensor:
    """Four times the values between neighbours in a row, at its ends the value itself. (.., W) -> (.., 2W)."""
    before = torch.cat((planes[..., :1], planes[..., :-1]), -1)
    after = torch.cat((planes[..., 1:], planes[..., -1:]), -1)
    return torch.stack((3 * planes + before, 3 * planes + after), -1).flatten(-2)


def _rounded(values: Tensor) -> Tensor:
    """To whole levels of 8 bits, halves up."""
    return (values + _HALF).floor().clamp(0, 255)
