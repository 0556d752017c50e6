"""One run of a table: train by the package's own trainer, score, look at its attention, and write it down."""

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from enlcn.checkpoint import save as save_network
from enlcn.cost import num_parameters
from enlcn.data.image_io import to_float
from enlcn.plain_config import to_plain
from enlcn.reproduce.estimation import attention_error
from enlcn.reproduce.material import Material
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import DRAWN, RunSpec, config_of, key_of
from enlcn.reproduce.store import Json, Store
from enlcn.train.distributed import Ranks
from enlcn.train.loop import Run
from enlcn.train.reporting import Reports, TrainRecord, ValidationRecord
from enlcn.train.snapshot import RunFolder, load_snapshot
from enlcn.train.start import fresh_network
from enlcn.train.step import set_up_backends
from enlcn.train.stopping import StopRequest
from enlcn.train.validation import HeldOutImage, psnrs


class Deadline(StopRequest):
    """Asks a run to stop, and thus to be saved, at a time of `time.time()`."""

    def __init__(self, at: float):
        self.at = at
        super().__init__()

    @property
    def signal(self) -> int | None:
        """A reason to stop, if there is one."""
        return self._noted or (-1 if time.time() >= self.at else None)

    @signal.setter
    def signal(self, number: int | None) -> None:
        self._noted = number


@dataclass
class Losses:
    """Keeps what a run reports of its losses, and passes on how far it is."""

    on_step: Callable[[int], None] | None = None
    last: TrainRecord | None = None

    def on_train(self, record: TrainRecord) -> None:
        """See `Sink`."""
        self.last = record
        if self.on_step is not None:
            self.on_step(record.step)

    def on_validation(self, record: ValidationRecord, pictures: dict[str, torch.Tensor]) -> None:
        """See `Sink`."""

    def close(self) -> None:
        """See `Sink`."""


def perform(
    spec: RunSpec,
    preset: Preset,
    steps: int,
    material: Material,
    store: Store,
    deadline: float,
    jobs: int = 1,
    on_step: Callable[[int], None] | None = None,
) -> bool:
    """Train and score one run, or go on with it; whether it is finished by the deadline (of `time.time()`).

    `jobs`, how many runs share the device, is written down beside the time that the run took; `on_step` is called now
    and then with the step it is at.
    """
    config = config_of(spec, preset, steps)
    key = key_of(config)
    if store.run(key) is not None:
        return True
    device = material.device
    folder = RunFolder(store.training(key))
    snapshot = load_snapshot(folder.last) if folder.last.exists() else None
    set_up_backends(config.engine, device)
    losses = Losses(on_step)
    began = time.monotonic()
    run = Run(
        config,
        fresh_network(config).to(device),
        material.training_images,
        [],
        Ranks(0, 1, device),
        folder,
        Reports([losses]),
        started=began,
        snapshot=snapshot,
    )
    with Deadline(deadline) as stop:
        outcome = run.until_done(stop)
    if outcome.stopped_by is not None and outcome.step < config.total_steps:
        if outcome.stopped_by > 0:
            raise KeyboardInterrupt
        return False
    network = run.averaged_network().eval()
    scores = score(network, material.scored_sets, device)
    record: Json = {
        "recipe": spec.recipe,
        "seed": spec.seed,
        "steps": outcome.step,
        "skipped_steps": outcome.skipped,
        "seconds": outcome.elapsed,
        "milliseconds_per_step": 1e3 * outcome.elapsed / max(1, outcome.step),
        "jobs": jobs,
        "device": device_name(device),
        "torch": torch.__version__,
        "parameters": num_parameters(config.model),
        "loss": losses.last.loss if losses.last else None,
        "contrastive": losses.last.contrastive if losses.last else None,
        "psnr": scores,
        "config": to_plain(config),
    }
    if config.model.attention.kind == "enlca" and config.model.num_attentions:
        record["estimate"] = attention_error(network, [to_float(photo.lr.to(device)) for photo in material.photos])
    if is_drawn(key, preset, steps):
        save_network(network, store.weights(key), dtype=torch.float16, overwrite=True)
    store.write_run(key, record)
    shutil.rmtree(folder.path, ignore_errors=True)
    return True


def is_drawn(key: str, preset: Preset, steps: int) -> bool:
    """Whether a figure shows this run's network; the run may go by the name of another table's row."""
    return any(key == key_of(config_of(RunSpec(recipe, 0), preset, steps)) for recipe in DRAWN)


@torch.no_grad()
def score(network: torch.nn.Module, sets: dict[str, list[HeldOutImage]], device: torch.device) -> dict[str, float]:
    """Mean PSNR on Y in dB of each set, as `enlcn evaluate` computes it; the network must be on the device."""
    images = {id(image): image for each in sets.values() for image in each}  # sets may share some
    found = dict(zip(images, psnrs(network, list(images.values()), device), strict=True))
    return {name: statistics.fmean(found[id(image)] for image in each) for name, each in sets.items()}


def device_name(device: torch.device) -> str:
    """A device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device}, {threads} thread{'s' if threads > 1 else ''}"
