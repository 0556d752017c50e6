"""LR images as cameras and the web give them: with noise, and out of JPEG files.

Half of the samples have no noise, a quarter were never a JPEG, so that clean ones are among them. What is drawn is a
pure function of (seed, sample), see `counter_random`; so is its noise, for one width.

Axes: B batch.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from enlcn.data.batch import BatchConfig
from enlcn.data.counter_random import derive_seed, uniform
from enlcn.data.jpeg_loss import JpegConstants, jpeg_round_trip

_STREAM = 4  # seeds of training's rows, F and weights are 1 to 3
_DRAWS, _ANGLES, _RADII = range(3)
_NUMBERS_PER_SAMPLE = 5  # noise, quality, chroma; where the grid of blocks begins: row, column
_GRID = 16
_UNCOMPRESSED = 0.25
_NOISE_BITS = 32  # numbers for each sample's noise


@dataclass(frozen=True)
class Degradation:
    """What is done to LR images; see `BatchConfig` for the first two.

    Attributes:
        noise, jpeg_quality: the strongest there is.
        seeds: of the draws of each sample, and of its noise.
        constants: of JPEG, on the device of the images.
    """

    noise: float
    jpeg_quality: int | None
    seeds: tuple[int, ...]
    constants: JpegConstants

    @staticmethod
    def of(batch: BatchConfig, seed: int, device: torch.device) -> "Degradation | None":
        """That of a run with this seed; None where inputs are clean."""
        if not batch.degrades:
            return None
        seeds = tuple(derive_seed(seed, _STREAM, purpose) for purpose in (_DRAWS, _ANGLES, _RADII))
        return Degradation(batch.noise, batch.jpeg_quality, seeds, JpegConstants.on(device))

    def __call__(self, lr: Tensor, sample: Tensor) -> Tensor:
        """Degrade images by their numbers. (B, 3, H, W) uint8, (B,) int64 -> (B, 3, H, W) uint8."""
        numbers = torch.arange(_NUMBERS_PER_SAMPLE, device=sample.device).unsqueeze(1)
        draws = uniform(self.seeds[_DRAWS], sample * _NUMBERS_PER_SAMPLE + numbers)  # (5, B)
        if self.noise:
            deviation = self.noise * (2 * draws[0] - 1).clamp(min=0)
            noisy = lr + deviation[:, None, None, None] * self._normal(lr, sample)
            lr = noisy.round().clamp(0, 255).to(torch.uint8)
        if self.jpeg_quality is not None:
            share = (draws[1] - _UNCOMPRESSED) / (1 - _UNCOMPRESSED)
            quality = self.jpeg_quality + (share.clamp(min=0) * (101 - self.jpeg_quality)).long()
            top, left = (_GRID * draws[3:]).long()
            lossy = self._on_grid(lr, quality, draws[2] < 0.5, top, left)
            lr = torch.where((share < 0)[:, None, None, None], lr, lossy)
        return lr

    def _normal(self, lr: Tensor, sample: Tensor) -> Tensor:
        """Normal numbers for every value, by Box and Muller. (B, 3, H, W) float64."""
        counter = (sample << _NOISE_BITS)[:, None] + torch.arange(lr[0].numel(), device=sample.device)
        angle, radius = (uniform(self.seeds[which], counter) for which in (_ANGLES, _RADII))
        normal = (-2 * (1 - radius).log()).sqrt() * (2 * math.pi * angle).cos()
        return normal.view(lr.shape)

    def _on_grid(self, lr: Tensor, quality: Tensor, halved: Tensor, top: Tensor, left: Tensor) -> Tensor:
        """JPEG files in which each image begins at (top, left) of the first blocks, (B,) each; (B, 3, H, W)."""
        height, width = lr.shape[-2:]
        larger = _shifted(lr, -top, -left, height + _GRID - 1, width + _GRID - 1)
        return _shifted(jpeg_round_trip(larger, quality, halved, self.constants), top, left, height, width)


def _shifted(images: Tensor, top: Tensor, left: Tensor, height: int, width: int) -> Tensor:
    """Each image from (top, left) on, its edges repeated beyond it. (B, 3, H, W) -> (B, 3, height, width)."""
    rows, columns = (
        (start[:, None] + torch.arange(length, device=start.device)).clamp(0, size - 1)
        for start, length, size in ((top, height, images.shape[-2]), (left, width, images.shape[-1]))
    )
    rows = rows[:, None, :, None].expand(-1, images.shape[1], -1, images.shape[-1])
    images = images.gather(2, rows)
    return images.gather(3, columns[:, None, None, :].expand(*images.shape[:3], -1))
