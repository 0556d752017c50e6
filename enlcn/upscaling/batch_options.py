"""What is done to every picture of a run. Checked without torch, before it is imported."""

from dataclasses import dataclass, field

from enlcn.errors import UserError
from enlcn.upscaling.background import Colour
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.target import Target


@dataclass(frozen=True)
class BatchOptions:
    """What is done to every picture.

    Attributes:
        target: the size wanted.
        model: name or file; None for what comes with the package.
        engine: device, precision, memory.
        quality: of lossy formats, 1 to 100; None for the format's default.
        lossless: lossless WebP or AVIF.
        overwrite: replace existing outputs.
        skip_existing: leave existing outputs as they are.
        jobs: pictures at a time.
        max_pixels: refuse larger inputs; None refuses only what neither fits in memory nor can be streamed.
        background: what transparent pictures are put on, losing their alpha; None keeps it.
    """

    target: Target
    model: str | None = None
    engine: EngineOptions = field(default_factory=EngineOptions)
    quality: int | None = None
    lossless: bool = False
    overwrite: bool = False
    skip_existing: bool = False
    jobs: int = 1
    max_pixels: int | None = None
    background: Colour | None = None

    def __post_init__(self) -> None:
        if self.overwrite and self.skip_existing:
            raise UserError("--overwrite and --skip-existing contradict each other")
        if self.jobs < 1:
            raise UserError(f"--jobs is {self.jobs}; it must be at least 1")
