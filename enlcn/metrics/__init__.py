"""Image quality against a ground truth: PSNR and SSIM on Y or RGB, as the field computes them."""

from enlcn.metrics.planes import rgb_to_y
from enlcn.metrics.psnr import psnr
from enlcn.metrics.ssim import ssim

__all__ = ["psnr", "rgb_to_y", "ssim"]
