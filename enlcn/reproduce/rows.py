"""Which training run stands behind which row of which table. Rows of several tables may share one run."""

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cache

from enlcn.plain_config import to_plain
from enlcn.reproduce import paper
from enlcn.reproduce.preset import Preset, shrink
from enlcn.train.config import TrainConfig
from enlcn.train.recipes import recipe as recipe_named
from enlcn.train.settings import apply_settings

ABLATION = {
    "base": "ablation-components-base",
    "ENLA": "ablation-components-enla",
    "ENLA + k": "ablation-components-enla-k",
    "ENLA + contrast": "ablation-components-enla-cl",
    "ENLA + k + contrast": "ablation-components-enla-k-cl",
}
AMPLIFICATION = {k: f"ablation-amplification-k-{k}" for k in range(1, 9)}
EFFICIENCY = {
    row: f"ablation-efficiency-{row.lower()}" for row, (_, psnr) in paper.EFFICIENCY.items() if psnr is not None
}
CRISSCROSS = {row: f"ablation-criss-cross-{row.lower()}" for row in paper.CRISSCROSS}
N1N2 = {(n1, n2): f"ablation-n1n2-{n1}-{n2}" for n1, row in paper.N1N2.items() for n2 in row}

BASE, ENLA, ENLA_K, FULL = (ABLATION[row] for row in ("base", "ENLA", "ENLA + k", "ENLA + k + contrast"))
NLA, NLSA = EFFICIENCY["NLA"], EFFICIENCY["NLSA-r4"]
# Beyond the paper: the whole method with other estimates of exp(q.k), and with none.
ESTIMATED = {
    "iid": f"{FULL} model.attention.projection=iid",
    "orthogonal": FULL,
    "exact": f"{FULL} model.attention.kind=nla",
}
# Looked at by the figures: their weights are kept.
DRAWN = (BASE, ENLA, ENLA_K, FULL, NLA, NLSA)
_LATER_SETTINGS = (
    ("model", "block"),
    ("model", "block_width"),
    ("model", "block_kernel"),
    ("data", "any_offset"),
    ("data", "swap_colours"),
    ("data", "smallest_factor"),
    ("data", "candidates"),
    ("data", "by_area"),
    ("data", "noise"),
    ("data", "jpeg_quality"),
    ("loss", "pixel"),
    ("optimizer", "kind"),
    ("optimizer", "momentum"),
    ("optimizer", "inner_factor"),
    ("optimizer", "residual_factor"),
)
_DEFAULTS = TrainConfig()


@dataclass(frozen=True)
class RunSpec:
    """A recipe of `enlcn train`, by name, perhaps followed by settings as its --set takes them; and a seed."""

    recipe: str
    seed: int


def specs(names: list[str], seeds: int) -> list[RunSpec]:
    """Every recipe with every seed, seed by seed: what is cut off leaves whole tables of fewer seeds."""
    return [RunSpec(name, seed) for seed in range(seeds) for name in names]


@cache
def config_of(spec: RunSpec, preset: Preset, steps: int) -> TrainConfig:
    """The run: the recipe as `enlcn train` has it, or shrunk to a miniature of `steps` steps."""
    name, *settings = spec.recipe.split()
    return replace(shrink(apply_settings(recipe_named(name), settings), preset, steps), seed=spec.seed)


@cache
def key_of(config: TrainConfig) -> str:
    """The same for rows of different tables that mean the same run; how it is computed does not count."""
    plain = to_plain(config)
    for name in ("engine", "cadence"):
        plain.pop(name)
    # Settings younger than some results: where they change nothing, those keep their keys.
    for part, name in _LATER_SETTINGS:
        if plain[part][name] == getattr(getattr(_DEFAULTS, part), name):
            del plain[part][name]
    if config.model.num_attentions == 0 or config.loss.contrastive_weight == 0:
        loss = plain.pop("loss")
        plain |= {"pixel": loss["pixel"]} if "pixel" in loss else {}
    if config.model.num_attentions == 0:
        plain["model"].pop("attention")
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:12]
