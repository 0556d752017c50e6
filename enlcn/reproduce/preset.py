"""How much smaller than the paper's a run is: presets, and the recipe of a table's row shrunk to one of them."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from enlcn import recipes
from enlcn.config import ModelConfig
from enlcn.errors import UserError
from enlcn.train.config import (
    CadenceConfig,
    DataConfig,
    EngineConfig,
    OptimizerConfig,
    ScheduleConfig,
    TrainConfig,
)

SCALE = 4
WARM_UP_SHARE = 0.15  # the paper: 150 of 1000 epochs without L_cl
SMOKE_SECONDS = 180.0
# Seconds of a whole reproduction where the user names none. No field of `Preset`: by those, old plans are compared.
DEFAULT_BUDGET = 600.0
BUDGETS = {"smoke": 10.0}


@dataclass(frozen=True)
class Preset:
    """What a reproduction trains and tests.

    Attributes:
        name: for labels.
        network: name of the base network that takes each row's attention; None for the paper's protocol.
        crop, batch_size: of training.
        learning_rate: at its highest; a cosine brings it to 0.
        num_rows: queries per attention and step that L_cl looks at; None for all.
        train_images: at most so many of the training photographs; None for all.
        test_images: at most so many of each test set; None for all.
        test_crop: LR side of the centre that is tested; None for whole images.
        testsets: names of the test sets that trained rows are scored on; None for all at hand.
        seeds: runs per row.
        sweep_seeds: runs per value where k or m is swept.
        grid_seeds: runs per cell of the n1 n2 grid.
        draws: of F, where an estimate is measured.
        photos: held-out photographs that features are taken from.
        photo_side: LR side of their centre.
        threads: of the CPU; None for all. Networks this small are slower on several.
        runtime_sides: of the images that modules are timed on; the paper's unless time is short.
        all_models: measure every network that comes with the package, not only the light ones.
    """

    name: str
    network: str | None
    crop: int = 48
    batch_size: int = 16
    learning_rate: float = 1e-3
    num_rows: int | None = 64
    train_images: int | None = None
    test_images: int | None = None
    test_crop: int | None = None
    testsets: tuple[str, ...] | None = None
    seeds: int = 3
    sweep_seeds: int = 2
    grid_seeds: int = 1
    draws: int = 64
    photos: int = 8
    photo_side: int = 64
    threads: int | None = None
    runtime_sides: tuple[int, int] = (100, 150)
    all_models: bool = True

    def __post_init__(self) -> None:
        for name in ("seeds", "sweep_seeds", "grid_seeds", "crop", "batch_size", "draws", "photos", "photo_side"):
            if getattr(self, name) < 1:
                raise UserError(f"{name.replace('_', ' ')} must be at least 1")

    @property
    def is_miniature(self) -> bool:
        """Whether less is trained than in the paper."""
        return self.network is not None

    def to_plain(self) -> dict[str, Any]:
        """A dictionary as JSON gives it back."""
        values = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


PRESETS = {
    # Every branch in seconds; the figures mean nothing.
    "smoke": Preset(
        "smoke",
        "enlcn-tiny",
        crop=14,
        batch_size=2,
        num_rows=8,
        train_images=6,
        test_images=2,
        test_crop=16,
        testsets=("Set5",),
        seeds=1,
        sweep_seeds=1,
        draws=2,
        photos=1,
        photo_side=20,
        threads=1,
        runtime_sides=(20, 30),
        all_models=False,
    ),
    "cpu": Preset(
        "cpu",
        "enlcn-tiny",
        crop=32,
        batch_size=8,
        num_rows=16,
        train_images=96,
        test_crop=48,
        testsets=("Set5", "Set14"),
        draws=16,
        photos=4,
        photo_side=48,
        all_models=False,
    ),
    "gpu": Preset("gpu", "enlcn-small"),
    "paper": Preset("paper", None, draws=256, photos=14, sweep_seeds=3, grid_seeds=3),
}


def budget_of(preset: str, given: float | None) -> float:
    """Seconds for a reproduction: those given, else what suits the preset of this name, which may be "auto".

    >>> budget_of("smoke", None), budget_of("auto", None), budget_of("smoke", 60.0)
    (10.0, 600.0, 60.0)
    """
    return BUDGETS.get(preset, DEFAULT_BUDGET) if given is None else given


def choose_preset(name: str, *, budget: float, on_cuda: bool) -> Preset:
    """The preset called `name`; "auto" goes by the budget and the device."""
    if name == "auto":
        name = "smoke" if budget < SMOKE_SECONDS else "gpu" if on_cuda else "cpu"
    if name not in PRESETS:
        raise UserError(f"unknown preset '{name}'; choose from auto, {', '.join(PRESETS)}")
    return PRESETS[name]


def shrink(config: TrainConfig, preset: Preset, steps: int) -> TrainConfig:
    """A paper recipe as a run of `steps` steps of `preset`: the same attention and loss in the small network.

    F is drawn anew twenty times in the run's first half and then stays; the paper draws it every epoch.
    """
    if preset.network is None:
        return config
    ema_decay = max(0.5, 1 - max(1e-3, 10 / steps))
    return replace(
        config,
        model=shrink_model(config.model, preset.network),
        data=DataConfig(crop=preset.crop, batch_size=preset.batch_size),
        loss=replace(config.loss, contrastive_start=round(WARM_UP_SHARE * steps), num_rows=preset.num_rows),
        schedule=ScheduleConfig(
            kind="cosine", learning_rate=preset.learning_rate, warmup_steps=max(1, steps // 50), clock="steps"
        ),
        optimizer=OptimizerConfig(clip_norm=1.0, ema_decay=ema_decay),
        # Compiling takes longer than such a run; the graph of kernels does without.
        engine=EngineConfig(compile="off"),
        cadence=CadenceConfig(
            log=max(1, min(500, steps // 10)),  # often enough to see how far a run is
            validate=0,
            checkpoint=0,
            redraw=max(1, steps // 40),
            redraw_until=0.5,
        ),
        total_steps=steps,
    )


def shrink_model(model: ModelConfig, network: str) -> ModelConfig:
    """The base network with `model`'s attention in its own places."""
    base = recipes.network(f"{network}-x{model.scale}")
    places = base.attention_after if model.num_attentions else ()
    return replace(base, attention=model.attention, attention_after=places)
