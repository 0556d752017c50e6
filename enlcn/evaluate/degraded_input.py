"""Test images as cameras and the web give them: LR with noise, through a JPEG file, or both."""

import io

import numpy as np
import torch
from torch import Tensor

from enlcn.errors import UserError


def check_degradation(noise: float, jpeg_quality: int | None) -> None:
    """An error where either is out of range."""
    if not 0 <= noise <= 255:
        raise UserError(f"noise is {noise:g}; it must lie in 0 to 255, in grey levels")
    if jpeg_quality is not None and not 1 <= jpeg_quality <= 100:
        raise UserError(f"the JPEG quality is {jpeg_quality}; it must lie in 1 to 100")


def degraded(lr: Tensor, noise: float = 0.0, jpeg_quality: int | None = None) -> Tensor:
    """An LR image with Gaussian noise, the same each time, and then through a file written by libjpeg.

    Args:
        lr: (1, 3, H, W) uint8.
        noise: its deviation, in grey levels of 255.
        jpeg_quality: 1 to 100, chroma at half the size; None for no file.

    Returns:
        (1, 3, H, W) uint8.
    """
    if noise:
        drawn = torch.randn(lr.shape, generator=torch.Generator().manual_seed(0))
        lr = (lr + noise * drawn).round().clamp(0, 255).byte()
    if jpeg_quality is not None:
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(lr[0].permute(1, 2, 0).numpy()).save(file, "JPEG", quality=jpeg_quality)
        lr = torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)[None]
    return lr
