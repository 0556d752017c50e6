"""Trained weights by name: what comes with the package, and which is taken where none is named. No torch here."""

from pathlib import Path

from enlcn.config import SCALES
from enlcn.errors import UserError

WEIGHTS_FOLDER = Path(__file__).parent / "weights"
DEFAULT_FAMILY = "enlcn-light"


def bundled() -> dict[str, Path]:
    """Name -> file of every network that comes with the package."""
    return {path.stem: path for path in sorted(WEIGHTS_FOLDER.glob("*.safetensors"))}


def trained_scale(factor: float, model: str | None = None) -> int:
    """The smallest scale no smaller than `factor` at which `model` is trained; None is what comes with the package."""
    family = model or DEFAULT_FAMILY
    scales = [scale for scale in SCALES if f"{family}-x{scale}" in bundled()] or SCALES
    for scale in scales:
        if factor <= scale:
            return scale
    raise UserError(f"x{factor:g} is beyond x{max(scales)}, the largest trained scale; run it twice")


def resolve(model: str | None, scale: int) -> str:
    """The checkpoint that `model` means at `scale`: a file or full name as given, a family completed by the scale.

    >>> resolve("untrained:enlcn-tiny", 2)
    'untrained:enlcn-tiny-x2'
    """
    name = model or DEFAULT_FAMILY
    if Path(name).is_file():
        return name
    has_scale = any(name.endswith(f"-x{s}") for s in SCALES)
    completed = name if has_scale or Path(name).suffix else f"{name}-x{scale}"
    if model is None and completed not in bundled():
        raise UserError("no trained weights come with this version; name a checkpoint with --model FILE")
    return completed
