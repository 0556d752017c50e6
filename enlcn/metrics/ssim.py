"""Structural similarity with the field's constants (Wang et al. 2004): 11x11 Gaussian, valid region only."""

import torch
from torch import Tensor

from enlcn.errors import UserError
from enlcn.metrics.planes import Channels, Pixels, compared_pair
from enlcn.metrics.psnr import PEAK

WINDOW = 11
SIGMA = 1.5
C1 = (0.01 * PEAK) ** 2
C2 = (0.03 * PEAK) ** 2


def ssim(sr: Pixels, hr: Pixels, *, shave: int = 0, channels: Channels = "y") -> float:
    """Mean SSIM of one image against its ground truth, both in [0, 255]; on RGB the mean of the three planes.

    Takes arrays (H, W) or (H, W, C) or tensors (C, H, W) or (1, C, H, W). The field shaves `scale` pixels.

    >>> import numpy as np
    >>> ramp = np.arange(256, dtype=np.uint8).reshape(16, 16)
    >>> ssim(ramp, ramp)
    1.0
    """
    a, b = compared_pair(sr, hr, shave, channels)
    if min(a.shape[-2:]) < WINDOW:
        height, width = a.shape[-2:]
        raise UserError(
            f"SSIM needs at least {WINDOW}x{WINDOW} pixels after shaving {shave}, there are {width}x{height}"
        )
    return float(ssim_map(a, b).mean())


def ssim_map(a: Tensor, b: Tensor) -> Tensor:
    """SSIM around each pixel whose window lies inside: two (C, H, W) in float64 -> (C, H - 10, W - 10)."""
    mean_a, mean_b, mean_aa, mean_bb, mean_ab = blur(torch.stack([a, b, a * a, b * b, a * b]))
    variance_a = mean_aa - mean_a * mean_a
    variance_b = mean_bb - mean_b * mean_b
    covariance = mean_ab - mean_a * mean_b
    luminance = (2 * mean_a * mean_b + C1) / (mean_a * mean_a + mean_b * mean_b + C1)
    structure = (2 * covariance + C2) / (variance_a + variance_b + C2)
    return luminance * structure


def blur(planes: Tensor) -> Tensor:
    """Gaussian means over the window, rows then columns: (..., H, W) -> (..., H - 10, W - 10)."""
    offsets = torch.arange(WINDOW, dtype=torch.float64) - WINDOW // 2
    weights = torch.exp(-(offsets**2) / (2 * SIGMA**2))
    taps = (weights / weights.sum()).tolist()
    for dim in (-2, -1):
        length = planes.shape[dim] - WINDOW + 1
        total = planes.narrow(dim, 0, length) * taps[0]
        for start in range(1, WINDOW):
            total.add_(planes.narrow(dim, start, length), alpha=taps[start])
        planes = total
    return planes
