"""The whole state of a run in one file, complete or not at all, and the run folder that holds such files.

RUN/config.json, metrics.jsonl, model.safetensors, checkpoints/{last,best,step-N}.pt. Which batch comes next is a
function of seed and step, so the step is the data order.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from enlcn.checkpoint import TRAINING_FORMAT, why_unread
from enlcn.errors import UserError
from enlcn.files import atomic_write, patient_file
from enlcn.plain_config import from_plain, to_plain
from enlcn.train.config import TrainConfig
from enlcn.train.step import TrainStep

FORMAT_VERSION = 2


@dataclass(frozen=True)
class Snapshot:
    """What is stored.

    Attributes:
        config: the run.
        step: steps done.
        elapsed: seconds of the budget used.
        skipped: steps that had no effect.
        best_psnr: the highest validation PSNR so far, None before the first.
        data_key: of the images trained on.
        held_out: names of the images validated on; None where the run is older than this.
        network: weights and F, under our names.
        average: the running sums of the weights' average, in the order of the parameters; None without.
        optimizers: their states, by name.
        random_states: torch's generators, by device ("cpu", "cuda:0").
    """

    config: TrainConfig
    step: int
    elapsed: float
    skipped: int
    best_psnr: float | None
    data_key: str
    network: dict[str, Tensor]
    average: list[Tensor] | None
    optimizers: dict[str, Any]
    random_states: dict[str, Tensor]
    held_out: list[str] | None = None

    def restore(self, state: TrainStep) -> None:
        """Put everything back where `take` found it."""
        state.network.load_state_dict(self.network)
        state.optimizers.load_state_dict(self.optimizers)
        if state.average is not None and self.average is not None:
            for kept, stored in zip(state.average.sums, self.average, strict=True):
                kept.copy_(stored)
        state.skip_to(self.step, self.skipped)
        for name, random_state in self.random_states.items():
            if name == "cpu":
                torch.set_rng_state(random_state)
            elif torch.cuda.is_available() and int(name.removeprefix("cuda:")) < torch.cuda.device_count():
                torch.cuda.set_rng_state(random_state, name)


def take(
    state: TrainStep, *, elapsed: float, best_psnr: float | None, data_key: str, held_out: list[str] | None = None
) -> Snapshot:
    """The state of a run between two steps; tensors are not copied."""
    random_states = {"cpu": torch.get_rng_state()}
    if state.device.type == "cuda":
        random_states[str(state.device)] = torch.cuda.get_rng_state(state.device)
    return Snapshot(
        config=state.config,
        step=state.step,
        elapsed=elapsed,
        skipped=state.read_skipped(),
        best_psnr=best_psnr,
        data_key=data_key,
        network=state.network.state_dict(),
        average=state.average.sums if state.average is not None else None,
        optimizers=state.optimizers.state_dict(),
        random_states=random_states,
        held_out=held_out,
    )


def is_snapshot(path: Path) -> bool:
    """Whether `path` is one of these files."""
    if path.suffix != ".pt" or not path.is_file():
        return False
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)  # reads no tensors
    except Exception:  # a damaged pickle makes its reader raise anything
        return False
    return isinstance(content, dict) and content.get("format") == TRAINING_FORMAT


def load_snapshot(path: Path) -> Snapshot:
    """Read a file that `RunFolder.save` wrote."""
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(f"{path}: no such training checkpoint") from None
    except Exception as error:  # a damaged pickle makes its reader raise anything
        raise UserError(f"{path}: not a readable training checkpoint: {why_unread(error)}") from None
    if not isinstance(values, dict) or values.pop("format", None) != TRAINING_FORMAT:
        raise UserError(f"{path}: not a training checkpoint")
    version = values.pop("version", "unknown")
    if version == 1:  # there was Adam alone
        version, values["optimizers"] = FORMAT_VERSION, {"adam": values.pop("optimizer")}
    if version != FORMAT_VERSION:
        raise UserError(f"{path}: training checkpoint of version {version}, this program reads {FORMAT_VERSION}")
    try:
        return Snapshot(**{**values, "config": from_plain(TrainConfig, json.loads(values["config"]))})
    except (KeyError, TypeError, ValueError, UserError) as error:
        raise UserError(f"{path}: not a training checkpoint that this program knows ({error})") from None


class RunFolder:
    """Where a run keeps its files."""

    def __init__(self, path: Path):
        self.path = path
        self.metrics = path / "metrics.jsonl"
        self.model = path / "model.safetensors"
        self.checkpoints = path / "checkpoints"
        self.last = self.checkpoints / "last.pt"
        self.best = self.checkpoints / "best.pt"

    def kept(self, step: int) -> Path:
        """The checkpoint that stays, of a step."""
        return self.checkpoints / f"step-{step}.pt"

    def save(self, snapshot: Snapshot) -> None:
        """Replace checkpoints/last."""
        content = dict(vars(snapshot))
        config = json.dumps(to_plain(snapshot.config))
        content |= {"config": config, "format": TRAINING_FORMAT, "version": FORMAT_VERSION}
        with atomic_write(self.last, overwrite=True) as temporary, patient_file(temporary) as file:
            torch.save(content, file)

    def keep_last_as(self, path: Path) -> None:
        """Give checkpoints/last a second name that the next save does not touch."""
        temporary = path.with_name(f".{path.name}")
        temporary.unlink(missing_ok=True)
        try:
            os.link(self.last, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(self.last, temporary)
        temporary.replace(path)

    def write_config(self, config: TrainConfig) -> None:
        """config.json, for people."""
        with atomic_write(self.path / "config.json", overwrite=True) as temporary:
            temporary.write_text(json.dumps(to_plain(config), indent=2) + "\n")
