"""Which models a server offers, by name; a client can choose among these and nothing else."""

import json
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from enlcn import recipes, zoo
from enlcn.config import SCALES, ModelConfig
from enlcn.errors import UserError, did_you_mean
from enlcn.file_metadata import metadata_of
from enlcn.serve.problems import Problem
from enlcn.zoo.locate import is_remote

_SCALE_SUFFIX = re.compile(r"-x([234])$")


@dataclass(frozen=True)
class Model:
    """One name that clients may choose.

    Attributes:
        name: what clients call it.
        source: what `enlcn upscale --model` would be given.
        scales: at which it is trained.
    """

    name: str
    source: str
    scales: tuple[int, ...]

    def checkpoint(self, factor: float) -> str:
        """The weights that serve a magnification, chosen as `enlcn upscale` does."""
        if zoo.is_path(self.source):
            return self.source
        return zoo.resolve(self.source, zoo.trained_scale(factor, self.source))

    @property
    def largest_scale(self) -> int:
        """What is taken where no scale is asked for."""
        return max(self.scales)


class Catalogue:
    """The models of a server, the first being the default."""

    def __init__(self, sources: tuple[str, ...]):
        self.models = {model.name: model for model in map(_model, sources or _families_here())}
        if not self.models:
            raise UserError("no trained weights come with this version; name a checkpoint with --model FILE")
        if len(self.models) < len(sources):
            raise UserError("two of the models have the same name; rename one of the files")

    @property
    def default(self) -> Model:
        """What is taken where a request names none."""
        return next(iter(self.models.values()))

    def find(self, name: str | None) -> Model:
        """A model by name; a full name such as enlcn-light-x4 also means its family."""
        if name is None:
            return self.default
        if name in self.models:
            return self.models[name]
        known = self.models.get(_SCALE_SUFFIX.sub("", name))
        match = _SCALE_SUFFIX.search(name)
        if known is not None and match is not None and int(match[1]) in known.scales:
            return Model(name, name, (int(match[1]),))
        names = ", ".join(self.models)
        raise Problem("invalid-parameters", f"there is no model of that name here; choose from {names}")

    @cached_property
    def description(self) -> list[dict[str, Any]]:
        """All that clients are told about the models; reads every file once."""
        return [
            {
                "name": model.name,
                "default": model is self.default,
                "scales": list(model.scales),
                "checkpoints": [describe(model.checkpoint(scale)) for scale in model.scales],
            }
            for model in self.models.values()
        ]


@lru_cache(maxsize=64)
def describe(checkpoint: str) -> dict[str, Any]:
    """What a checkpoint is: its size, and its attention with the paper's k and m and whether L_cl trained it."""
    from enlcn.checkpoint import read_config_of
    from enlcn.cost import num_parameters

    trained = not checkpoint.startswith(zoo.UNTRAINED_PREFIX)
    config: ModelConfig = (
        read_config_of(zoo.locate(checkpoint))
        if trained
        else recipes.network(checkpoint.removeprefix(zoo.UNTRAINED_PREFIX))
    )
    attention = config.attention
    return {
        "name": Path(checkpoint).name,
        "scale": config.scale,
        "parameters": num_parameters(config),
        "trained": trained,
        "attention": {
            "kind": attention.kind,
            "modules": config.num_attentions,
            "k": attention.amplification,
            "m": attention.num_features if attention.kind == "enlca" else None,
            "contrast": contrast(checkpoint) if trained else False,
        },
    }


def contrast(checkpoint: str) -> bool | None:
    """Whether the contrastive loss took part in training; None where nothing records it."""
    shipped = zoo.known().get(checkpoint)
    if shipped is not None:
        return "L_cl" in shipped.recipe if shipped.recipe else None
    path = Path(checkpoint)
    try:
        if path.is_dir():  # a training run
            return float(json.loads((path / "config.json").read_text())["loss"]["contrastive_weight"]) > 0
        return float(json.loads(metadata_of(path)["training"])["loss"]["contrastive_weight"]) > 0
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _model(source: str) -> Model:
    if source.startswith(zoo.UNTRAINED_PREFIX):
        match = _SCALE_SUFFIX.search(source)
        recipes.network(source.removeprefix(zoo.UNTRAINED_PREFIX))
        return Model(source, source, (int(match[1]),) if match else SCALES)
    if source.endswith(".onnx"):
        raise UserError(f"{source}: the studio shows what happens inside a network; give it weights, not ONNX")
    if is_remote(source):
        source = str(zoo.locate(source))  # fetched once, when the server starts
    if zoo.is_path(source):
        return Model(Path(source).stem, source, (zoo.native_scale(source),))
    family = tuple(scale for scale in SCALES if f"{source}-x{scale}" in zoo.here())
    if family:
        return Model(source, source, family)
    if source in zoo.here():
        return Model(source, source, (zoo.native_scale(source),))
    if source in zoo.known():
        zoo.locate(source)  # not here, which it says, and where to get it
    names = ", ".join(_families_here())
    meant = did_you_mean(source, zoo.known(), most=1)
    raise UserError(f"{source}: no such file or model here; {meant}there are {names}; see `enlcn models`")


def _families_here() -> tuple[str, ...]:
    """Families of the models on this computer, the default one first; none is fetched because a client asks."""
    families = dict.fromkeys(_SCALE_SUFFIX.sub("", name) for name in zoo.here())
    return tuple(sorted(families, key=lambda name: name != zoo.DEFAULT_FAMILY))
