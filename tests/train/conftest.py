"""A small set of smooth pictures, and runs on it that take a second."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from enlcn import recipes
from enlcn.train.config import CadenceConfig, DataConfig, LossConfig, OptimizerConfig, ScheduleConfig, TrainConfig
from enlcn.train.settings import setting_names

# The command as installed, in a process of its own.
COMMAND = (
    sys.executable,
    "-c",
    "import typer; from enlcn.cli import console, train; app = typer.Typer(pretty_exceptions_enable=False); "
    "app.command()(train.train); console.run_guarded(lambda: app(standalone_mode=False))",
)

TINY = TrainConfig(
    model=replace(recipes.TINY, scale=2, channels=8, num_blocks=2, attention_after=(0, 2)),
    data=DataConfig(crop=10, batch_size=4),
    loss=LossConfig(contrastive_start=4, num_rows=20),
    schedule=ScheduleConfig(kind="cosine", learning_rate=2e-3, warmup_steps=3),
    optimizer=OptimizerConfig(clip_norm=1.0, ema_decay=0.9),
    cadence=CadenceConfig(log=5, validate=20, checkpoint=5, redraw=7),
    total_steps=20,
)


def as_options(config: TrainConfig) -> list[str]:
    """What turns the recipe cpu-x2 into `config` on the command line."""
    texts = []
    for name, value in setting_names(config).items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        texts += ["--set", f"{name}={text}"]
    return texts


def write_pictures(folder, count=5, size=(64, 80)):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for index in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        coarse.resize(size[::-1], Image.Resampling.BICUBIC).save(folder / f"{index}.png")


@pytest.fixture(autouse=True)
def always_one_thread(one_thread):
    """All tests of this folder run so."""


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Five to train on, two held out."""
    folder = tmp_path_factory.mktemp("pictures")
    write_pictures(folder / "train")
    write_pictures(folder / "val", count=2, size=(40, 44))
    return folder


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")
