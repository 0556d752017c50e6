"""Which model is taken at which scale: a family's own where there is one, the next larger one else."""

import json
import re
from pathlib import Path

from enlcn import recipes
from enlcn.config import SCALES
from enlcn.errors import UserError, did_you_mean
from enlcn.file_metadata import metadata_of
from enlcn.zoo import manifest, registry
from enlcn.zoo.locate import is_remote, locate, manifest_folder

DEFAULT_FAMILY = "enlcn-light"
UNTRAINED_PREFIX = "untrained:"  # before a network's name: fresh weights


def family_scales(family: str) -> list[int]:
    """The scales of a family of shipped models: those that are here, else those that are known, else none."""
    known = registry.known()
    scales = [scale for scale in SCALES if f"{family}-x{scale}" in known]
    return [scale for scale in scales if registry.find(known[f"{family}-x{scale}"]) is not None] or scales


def is_path(model: str) -> bool:
    """Whether a model is named by a file or folder: names of shipped models and families go first, as ./NAME does not.

    A clone has a folder that is called like the family of the paper's network.
    """
    return model not in registry.known() and not family_scales(model) and Path(model).exists()


def trained_scale(factor: float, model: str | None = None) -> int:
    """The smallest scale no smaller than `factor` at which `model` is trained; None is what comes with the package."""
    scales = family_scales(model or DEFAULT_FAMILY) or list(SCALES)
    for scale in scales:
        if factor <= scale:
            return scale
    largest = max(scales)
    raise UserError(f"x{factor:.4g} is beyond x{largest}, the largest trained scale{beyond_advice(factor, largest)}")


def beyond_advice(factor: float, largest: int) -> str:
    """How a factor beyond the largest scale is reached in several runs.

    >>> beyond_advice(8, 4)
    '; upscale by x4 first, then the result by x2'
    >>> beyond_advice(32, 4)
    '; upscale by x4 twice first, then the result by x2'
    """
    rest, runs = factor / largest, 1
    while rest > largest:
        rest, runs = rest / largest, runs + 1
    often = {1: "", 2: " twice"}.get(runs, f" {runs} times")
    return f"; upscale by x{largest}{often} first, then the result by x{rest:.4g}"


def native_scale(model: str | None) -> int:
    """The scale that `model` was made for, where it can be told without loading it; the largest trained one else."""
    name = model or DEFAULT_FAMILY
    if (shipped := registry.known().get(name)) is not None:
        return shipped.scale
    if scales := family_scales(name):
        return max(scales)
    if (folder := manifest_folder(Path(name))) is not None:
        return manifest.read_one(folder / registry.MANIFEST_NAME).scale
    path = locate(name) if is_remote(name) else Path(name)
    path = path / "model.safetensors" if path.is_dir() else path
    if path.is_file() and path.suffix == ".safetensors":
        return _scale_in_header(path) or max(SCALES)
    if path.suffix.lower() == ".onnx":
        from enlcn.upscaling.onnx_model import onnx_scale

        return onnx_scale(path)
    if path.is_file():
        from enlcn.checkpoint import read  # the authors' files tell it by the shapes of their tensors

        return read(path).config.scale
    match = re.search(r"-x([234])$", name)
    return int(match[1]) if match else max(SCALES)


def resolve(model: str | None, scale: int) -> str:
    """The checkpoint that `model` means at `scale`: a file or full name as given, a family completed by the scale.

    >>> resolve("untrained:enlcn-tiny", 2)
    'untrained:enlcn-tiny-x2'
    """
    name = model or DEFAULT_FAMILY
    completed = f"{name}-x{scale}"
    known = registry.known()
    if completed in known:
        return completed
    if model is None and not family_scales(name):
        raise UserError("no trained weights come with this version; name a checkpoint with --model FILE")
    if name not in known and (scales := family_scales(name)):
        there = ", ".join(f"x{each}" for each in scales)
        raise UserError(f"{name}: there are no weights for x{scale}, only for {there}")
    is_family = name.startswith(UNTRAINED_PREFIX) and not re.search(r"-x\d+$", name)
    return completed if is_family else name


def refuse_scale(factor: float, model: str | None) -> None:
    """An error where `model` is not there, or cannot enlarge by `factor`, as far as that can be told without torch.

    Weights that come from elsewhere are not fetched for it, and pickles are not read.
    """
    if model is not None and is_remote(model):
        return
    if model is None or not is_path(model):
        name = resolve(model, trained_scale(factor, model))
        if name.startswith(UNTRAINED_PREFIX):
            return
        refuse_unknown(locate(name))
        if name != model:  # of a family, and chosen by the scale
            return
    assert model is not None
    path = Path(model)
    if model in registry.known() or path.is_dir() or path.suffix.lower() == ".safetensors":
        largest = native_scale(model)
        if factor > largest:
            raise UserError(f"x{factor:.4g} is beyond this model's x{largest}{beyond_advice(factor, largest)}")


def refuse_absent_model(model: str | None) -> None:
    """An error where a model is neither an address, a file, nor a name that is known."""
    named = model is None or is_remote(model) or is_path(model) or model.startswith(UNTRAINED_PREFIX)
    if model is not None and not named and model not in registry.known() and not family_scales(model):
        refuse_unknown(Path(model))


def refuse_unknown(path: Path) -> None:
    """An error where nothing lies at `path`, which is what `locate` makes of a name that is not known."""
    family = family_scales(str(path))
    if family and not path.is_file() and not (path / "model.safetensors").is_file():
        names = ", ".join(f"{path}-x{scale}" for scale in family)
        raise UserError(f"{path}: a family of models, of which one is meant here: {names}")
    if path.is_file() or path.is_dir():
        return
    if likely := did_you_mean(str(path), registry.known(), most=1):
        raise UserError(f"{path}: no such file or model; {likely}`enlcn models` lists all")
    names = ", ".join(registry.here()) or "none in this version"
    raise UserError(
        f"{path}: no such file or model; give a .safetensors or .pt file, a shipped model ({names}; see "
        f"`enlcn models`), or {UNTRAINED_PREFIX}NAME with one of {', '.join(recipes.NETWORKS)}"
    )


def _scale_in_header(path: Path) -> int | None:
    """The scale in the config of one of our files; None where it has none, which loading it will explain."""
    try:
        return int(json.loads(metadata_of(path)["config"])["scale"])
    except (ValueError, KeyError, TypeError):
        return None
