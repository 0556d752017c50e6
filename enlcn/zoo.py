"""Trained weights by name: what comes with the package, and which is taken where none is named. No torch here."""

import json
import re
import struct
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
    largest = max(scales)
    advice = "; run it twice" if factor <= largest**2 else ""
    raise UserError(f"x{factor:.4g} is beyond x{largest}, the largest trained scale{advice}")


def native_scale(model: str | None) -> int:
    """The scale that `model` was made for, where it can be told without loading it; the largest trained one else."""
    name = model or DEFAULT_FAMILY
    path = Path(name) / "model.safetensors" if Path(name).is_dir() else Path(name)
    if path.is_file() and path.suffix == ".safetensors":
        return _scale_in_header(path) or max(SCALES)
    if path.is_file():
        from enlcn.checkpoint import read  # the authors' files tell it by the shapes of their tensors

        return read(path).config.scale
    match = re.search(r"-x([234])$", name)
    return int(match[1]) if match else max(SCALES)


def _scale_in_header(path: Path) -> int | None:
    """The scale in the config of one of our files; None where it has none, which loading it will explain."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, 2**26)))
        return int(json.loads(header["__metadata__"]["config"])["scale"])
    except (OSError, struct.error, ValueError, KeyError, TypeError):
        return None


def resolve(model: str | None, scale: int) -> str:
    """The checkpoint that `model` means at `scale`: a file or full name as given, a family completed by the scale.

    >>> resolve("untrained:enlcn-tiny", 2)
    'untrained:enlcn-tiny-x2'
    """
    name = model or DEFAULT_FAMILY
    completed = f"{name}-x{scale}"
    if completed in bundled():
        return completed
    if model is None:
        raise UserError("no trained weights come with this version; name a checkpoint with --model FILE")
    is_family = name.startswith("untrained:") and not re.search(r"-x\d+$", name)
    return completed if is_family else name
