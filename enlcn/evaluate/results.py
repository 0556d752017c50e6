"""What an evaluation found, and under which settings."""

from dataclasses import dataclass, fields
from statistics import fmean


@dataclass(frozen=True)
class Settings:
    """How the images were upscaled and compared.

    Attributes:
        scale: s.
        shave: pixels dropped on each side before comparing; the field drops s.
        precision: fp32, bf16 or fp16 (autocast).
        self_ensemble: whether each image is the mean over the eight flips and rotations.
        mode: "whole" image at once, or "streaming".
        border: the border rule of LR images that were made, not read.
        noise: the deviation of Gaussian noise added to LR, in grey levels.
        jpeg_quality: of the JPEG file that LR then went through; None for none.
        device: where the networks ran.
    """

    scale: int
    shave: int
    precision: str = "fp32"
    self_ensemble: bool = False
    mode: str = "whole"
    border: str = "mirror"
    noise: float = 0.0
    jpeg_quality: int | None = None
    device: str = "cpu"


@dataclass(frozen=True)
class Score:
    """The figures of one image, or their means over a set; PSNR in dB, time of the upscaling alone."""

    psnr_y: float
    ssim_y: float
    psnr_rgb: float
    ssim_rgb: float
    seconds: float


@dataclass(frozen=True)
class ImageScore:
    """One image of one set, as upscaled by one model."""

    model: str
    testset: str
    image: str
    score: Score


@dataclass(frozen=True)
class ModelInfo:
    """What was compared: its name in tables, where it came from, its number of parameters."""

    name: str
    source: str
    parameters: int


@dataclass(frozen=True)
class TestsetInfo:
    """A test set: its name in tables, where it lies, how many images it has, where its LR images came from."""

    __test__ = False  # not a test case, whatever pytest thinks of the name

    name: str
    folder: str
    images: int
    lr_source: str


@dataclass(frozen=True)
class Results:
    """All figures of one run."""

    settings: Settings
    models: tuple[ModelInfo, ...]
    testsets: tuple[TestsetInfo, ...]
    images: tuple[ImageScore, ...]

    def mean(self, model: str, testset: str) -> Score:
        """Means over the images of a set."""
        scores = [each.score for each in self.images if (each.model, each.testset) == (model, testset)]
        if not scores:
            raise KeyError(f"{model} was not evaluated on {testset}")
        return Score(*(fmean(getattr(score, field.name) for score in scores) for field in fields(Score)))
