"""Test images as cameras and the web give them: LR with noise, through a JPEG file, or both."""

import io

import numpy as np
import torch
from torch import Tensor

from enlcn.data.degradation_ranges import check_jpeg_quality, check_noise
from enlcn.data.image_formats import check_format_fits


def degraded(lr: Tensor, noise: float = 0.0, jpeg_quality: int | None = None) -> Tensor:
    """An LR image with Gaussian noise, the same each time, and then through a file written by libjpeg.

    Args:
        lr: (1, 3, H, W) uint8.
        noise: its deviation, in grey levels of 255.
        jpeg_quality: 1 to 100, chroma at half the size; None for no file.

    Returns:
        (1, 3, H, W) uint8.
    """
    check_noise(noise, "noise")
    check_jpeg_quality(jpeg_quality, "jpeg_quality")
    if noise:
        drawn = torch.randn(lr.shape, generator=torch.Generator().manual_seed(0))
        lr = (lr + noise * drawn).round().clamp(0, 255).byte()
    if jpeg_quality is not None:
        from PIL import Image

        check_format_fits("jpeg", lr.shape[-1], lr.shape[-2], "an LR image")
        file = io.BytesIO()
        Image.fromarray(lr[0].permute(1, 2, 0).numpy()).save(file, "JPEG", quality=jpeg_quality)
        lr = torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)[None]
    return lr
