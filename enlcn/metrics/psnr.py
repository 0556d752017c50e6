"""Peak signal-to-noise ratio in decibels: 10 log10(peak^2 / mean squared error)."""

import math

from enlcn.metrics.planes import Channels, Pixels, compared_pair

PEAK = 255.0


def psnr(sr: Pixels, hr: Pixels, *, shave: int = 0, channels: Channels = "y") -> float:
    """PSNR of one image against its ground truth, both in [0, 255]; infinite where they are equal.

    Takes arrays (H, W) or (H, W, C) or tensors (C, H, W) or (1, C, H, W). The field shaves `scale` pixels.

    >>> import numpy as np
    >>> black = np.zeros((16, 16, 3), np.uint8)
    >>> round(psnr(black, black + 1, channels="rgb"), 4)
    48.1308
    """
    a, b = compared_pair(sr, hr, shave, channels)
    error = float((a - b).square().mean())
    return math.inf if error == 0 else 10 * math.log10(PEAK**2 / error)
