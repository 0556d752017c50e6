"""Named runs: the paper's, every row of its ablations, the small networks, and a modern one for each."""

import re
from dataclasses import replace

from enlcn import recipes
from enlcn.config import SCALES, ModelConfig, describe_body
from enlcn.errors import UserError, did_you_mean
from enlcn.train.config import (
    STEPS_PER_EPOCH,
    CadenceConfig,
    DataConfig,
    EngineConfig,
    LossConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
)

PAPER = TrainConfig()
# LR crops of the lineage's 92, 108 and 112 HR pixels; the paper gives none for x3.
PAPER_CROPS = {2: 46, 3: 36, 4: 28}
NO_CONTRAST = replace(PAPER.loss, contrastive_weight=0.0)

# What trains a network best within hours on one card, not what the paper did. Even 1.5 M parameters learn a thousand
# photographs by heart unless these look different each time. L_cl looks at few rows: an unbiased estimate at a small
# part of the cost. F stays as it is in the second half: while the learning rate falls, the network settles on the F
# it will keep.
MODERN = TrainConfig(
    data=DataConfig(crop=48, batch_size=32, any_offset=True, swap_colours=True),
    loss=LossConfig(contrastive_start=0, num_rows=64),
    schedule=ScheduleConfig(kind="cosine", learning_rate=2e-4, warmup_steps=500, final_fraction=1e-3),
    optimizer=OptimizerConfig(clip_norm=1.0, ema_decay=0.999),
    cadence=CadenceConfig(checkpoint=5000, validate=5000, keep=100_000, redraw_until=0.5),
    total_steps=300_000,
)
MODERN_SMALL = replace(
    MODERN,
    data=replace(MODERN.data, batch_size=64),
    loss=replace(MODERN.loss, num_rows=16),
    schedule=replace(MODERN.schedule, learning_rate=1e-3),
)
# Gated blocks, as they were compared with EDSR's (docs/log.md).
MODERN_GATED = replace(
    MODERN_SMALL,
    data=replace(MODERN_SMALL.data, by_area=False),
    optimizer=replace(MODERN_SMALL.optimizer, kind="muon", inner_factor=3.0),
)
# Photographs as cameras and the web give them, for a network that knows clean ones (--init enlcn-light-xS).
PHOTO = replace(
    MODERN_SMALL,
    data=replace(MODERN_SMALL.data, by_area=False, smallest_factor=0.5, noise=10.0, jpeg_quality=30),
    schedule=replace(MODERN_SMALL.schedule, learning_rate=5e-4),
    cadence=replace(MODERN_SMALL.cadence, redraw=0),
    total_steps=60_000,
)
# A last stage for a trained network (--init): larger crops, F as it is, and the error that PSNR is a function of. By
# then errors are about 0.03, so that the gradient of their squares is a twentieth of L1's; L_cl's weight follows.
POLISH = replace(
    MODERN_SMALL,
    data=replace(MODERN_SMALL.data, crop=64, batch_size=36),
    loss=replace(MODERN_SMALL.loss, pixel="l2", contrastive_weight=5e-5),
    schedule=replace(MODERN_SMALL.schedule, learning_rate=2e-4, warmup_steps=200),
    cadence=replace(MODERN_SMALL.cadence, validate=1000, redraw=0),
    total_steps=4000,
)

# For CPUs, in at most 1.5 M parameters; those called edsr are without attention.
_LIGHT = ("enlcn-light", "edsr-light", "enlcn-gated", "edsr-gated")
# Two CPU cores and ten minutes: small, with the average short enough for a few thousand steps, in which Muon is ahead.
CPU = TrainConfig(
    model=replace(recipes.SMALL, scale=2, channels=32, num_blocks=8, attention_after=(0, 4)),
    data=DataConfig(crop=24, batch_size=16),
    loss=LossConfig(contrastive_start=0, num_rows=16),
    schedule=ScheduleConfig(kind="cosine", learning_rate=1e-3, warmup_steps=50),
    optimizer=OptimizerConfig(kind="muon", inner_factor=3.0, clip_norm=1.0, ema_decay=0.99),
    cadence=CadenceConfig(log=20, validate=200, checkpoint=200, redraw=200, validation_images=4, validation_crop=64),
    total_steps=4000,
)
# One core and an hour for a network of 0.25 M parameters.
CPU_LONG = replace(
    CPU,
    data=DataConfig(crop=32, batch_size=16, any_offset=True, swap_colours=True, by_area=False, smallest_factor=0.5),
    schedule=replace(CPU.schedule, warmup_steps=100, final_fraction=1e-3),
    optimizer=replace(CPU.optimizer, ema_decay=0.998),
    engine=EngineConfig(precision="bf16"),
    cadence=replace(CPU.cadence, log=100, validate=1000, checkpoint=1000, redraw_until=0.5, validation_images=24),
    total_steps=30_000,
)
# The same within hours on one core.
CPU_PHOTO = replace(
    CPU_LONG,
    data=replace(PHOTO.data, crop=32, batch_size=16),
    schedule=replace(CPU_LONG.schedule, learning_rate=5e-4),
    optimizer=replace(PHOTO.optimizer, ema_decay=0.998),
    cadence=replace(CPU_LONG.cadence, validate=500, checkpoint=500, redraw=0),
    total_steps=10_000,
)


def paper(model: ModelConfig, loss: LossConfig = PAPER.loss) -> TrainConfig:
    """The paper's training of any network; L_cl only where there are queries and keys to contrast."""
    data = replace(PAPER.data, crop=PAPER_CROPS[model.scale])
    return replace(PAPER, model=model, data=data, loss=loss if model.attention.kind == "enlca" else NO_CONTRAST)


def modern(model: ModelConfig, base: TrainConfig) -> TrainConfig:
    """The modern training of any network."""
    loss = base.loss if model.num_attentions else replace(NO_CONTRAST, pixel=base.loss.pixel)
    return replace(base, model=model, loss=loss)


def _slug(row: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", row.lower()).strip("-")


def _ablations() -> dict[str, TrainConfig]:
    """ablation-TABLE-ROW. The components table says row by row whether L_cl is on; elsewhere ENLCA has it."""
    rows = {
        f"ablation-{table}-{_slug(row)}": paper(model, NO_CONTRAST if table == "components" else PAPER.loss)
        for table, models in recipes.ABLATIONS.items()
        for row, model in models.items()
    }
    for row, model in {"enla": recipes.NETWORKS["enlan"], "enla-k": recipes.ENLCN}.items():
        rows[f"ablation-components-{row}-cl"] = paper(model)
    for relevant in (1.0, 1.5, 2.0, 3.0):
        for start in (4, 8, 13, 20):
            loss = replace(PAPER.loss, relevant_fraction=relevant / 100, irrelevant_start=start / 100)
            run = replace(paper(recipes.ENLCN, loss), total_steps=200 * STEPS_PER_EPOCH)
            rows[f"ablation-n1n2-{relevant:g}-{start}"] = run
    return rows


def _all() -> dict[str, TrainConfig]:
    named: dict[str, TrainConfig] = {}
    for scale in SCALES:
        named[f"paper-x{scale}"] = paper(recipes.network(f"enlcn-x{scale}"))
    for scale in SCALES:
        for name in ("edsr", "enlcn-small", "edsr-small", "enlcn-tiny"):
            named[f"paper-{name}-x{scale}"] = paper(recipes.network(f"{name}-x{scale}"))
    for scale in SCALES:
        for name in ("enlcn", "enlcn-small", "edsr-small", "enlcn-fast", *_LIGHT):
            base = MODERN if name == "enlcn" else MODERN_GATED if name.endswith("-gated") else MODERN_SMALL
            named[f"modern-{name}-x{scale}"] = modern(recipes.network(f"{name}-x{scale}"), base)
    for scale in SCALES:
        for name in _LIGHT:
            named[f"polish-{name}-x{scale}"] = modern(recipes.network(f"{name}-x{scale}"), POLISH)
        light = recipes.network(f"enlcn-light-x{scale}")
        named |= {
            f"modern-enlcn-photo-x{scale}": modern(light, PHOTO),
            f"cpu-enlcn-photo-x{scale}": modern(light, CPU_PHOTO),
        }
    named["cpu-x2"] = CPU
    for scale in SCALES:
        named[f"cpu-enlcn-fast-x{scale}"] = modern(recipes.network(f"enlcn-fast-x{scale}"), CPU_LONG)
    return named | _ablations()


RECIPES: dict[str, TrainConfig] = _all()


def recipe(name: str) -> TrainConfig:
    """The run called `name`."""
    if name not in RECIPES:
        raise UserError(f"unknown recipe '{name}'; {did_you_mean(name, RECIPES)}`enlcn train --list` shows all")
    return RECIPES[name]


def describe(config: TrainConfig) -> str:
    """One line for lists."""
    model, data, loss = config.model, config.data, config.loss
    kind = model.attention.kind
    attention = f"{model.num_attentions} {kind}" if model.num_attentions else "no attention"
    if kind == "enlca":
        attention += f" (k {model.attention.amplification}, m {model.attention.num_features})"
    parts = [
        f"x{model.scale}",
        describe_body(model),
        attention,
        f"{data.batch_size} crops of {data.crop}",
        f"{config.schedule.kind} {config.schedule.learning_rate:g}",
        f"{config.total_steps // STEPS_PER_EPOCH} epochs",
    ]
    if data.noise:
        parts.append(f"noise up to {data.noise:g}")
    if data.jpeg_quality is not None:
        parts.append(f"JPEG from quality {data.jpeg_quality}")
    if loss.pixel != "l1":
        parts.append(loss.pixel.upper())
    if loss.contrastive_weight:
        parts.append(f"L_cl from epoch {loss.contrastive_start // STEPS_PER_EPOCH}")
    return ", ".join(parts)
