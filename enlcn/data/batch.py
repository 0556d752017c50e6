"""What a batch of crops is: plain settings, no torch.

`DataConfig` adds where decoded images are kept, `Sampling` which process takes which share.
"""

from dataclasses import dataclass

from enlcn.data.degradation_ranges import check_jpeg_quality, check_noise
from enlcn.errors import UserError


@dataclass(frozen=True)
class BatchConfig:
    """Which crops are drawn, and how they are varied.

    Attributes:
        crop: p, the side of an LR crop.
        batch_size: samples per step, over all processes.
        augment: flips and rotations.
        any_offset: crops begin at any HR pixel, their LR being made as they are drawn; otherwise on the grid of LR
            images made beforehand, one of s² that each photograph has.
        swap_colours: red, green and blue are given to each other.
        smallest_factor: half of the photographs are shrunk by a factor between this and 1 before crops are taken.
        candidates: crops drawn for each sample, of which the most detailed is taken; 1 for all alike.
        by_area: large images are drawn more often, so that every pixel is about as often; otherwise all images alike.
        noise: half of the LR crops get Gaussian noise of a deviation between 0 and this, in grey levels of 255.
        jpeg_quality: three quarters of the LR crops come out of a JPEG file of a quality between this and 100; None
            for none.
    """

    crop: int = 28
    batch_size: int = 16
    augment: bool = True
    any_offset: bool = False
    swap_colours: bool = False
    smallest_factor: float = 1.0
    candidates: int = 1
    by_area: bool = True
    noise: float = 0.0
    jpeg_quality: int | None = None

    def __post_init__(self) -> None:
        for name in ("crop", "batch_size", "candidates"):
            if getattr(self, name) < 1:
                raise UserError(f"data.{name} must be at least 1")
        if not 0 < self.smallest_factor <= 1:
            raise UserError(f"data.smallest_factor is {self.smallest_factor}; it must lie in (0, 1]")
        if self.rescales and not self.any_offset:
            raise UserError("data.smallest_factor needs data.any_offset=true: LR must be made as crops are drawn")
        check_noise(self.noise, "data.noise")
        check_jpeg_quality(self.jpeg_quality, "data.jpeg_quality")

    @property
    def rescales(self) -> bool:
        """Whether some photographs are shrunk first."""
        return self.smallest_factor < 1

    @property
    def degrades(self) -> bool:
        """Whether LR crops are not always clean."""
        return self.noise > 0 or self.jpeg_quality is not None
