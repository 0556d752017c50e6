"""Starting a run or going on with one: images, network, checkpoint, and then the loop."""

import logging
import math
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console

from enlcn.data.counter_random import derive_seed
from enlcn.data.degradation import Degradation
from enlcn.data.image_formats import SUFFIXES
from enlcn.data.shards import ImageFile, PackedImages, default_cache, find_images, load_packed
from enlcn.errors import UserError
from enlcn.files import check_folder, refuse_absent
from enlcn.models.backbone import SRNetwork
from enlcn.train.config import TrainConfig
from enlcn.train.distributed import Ranks, processes
from enlcn.train.loop import Outcome, Run, sampling_of
from enlcn.train.reporting import Reports, open_reports
from enlcn.train.schedule import follows_budget, is_over, learning_rate
from enlcn.train.settings import differences, setting_names
from enlcn.train.snapshot import RunFolder, Snapshot, load_snapshot
from enlcn.train.step import set_up_backends
from enlcn.train.stopping import StopRequest
from enlcn.train.validation import VALIDATION_SEED, HeldOutImage, load_held_out
from enlcn.train.warm_start import warm_start

log = logging.getLogger(__name__)
_WEIGHT_STREAM = 3
# What may change when a run goes on: how it is computed and watched, and where it ends.
_FREE_SETTINGS = (
    "total_steps",
    "schedule.clock",
    "engine.",
    "data.placement",
    "optimizer.max_bad_steps",
    "cadence.log",
    "cadence.validat",
    "cadence.checkpoint",
    "cadence.keep",
)


@dataclass(frozen=True)
class Job:
    """A run and its surroundings.

    Attributes:
        config: what to train.
        data: folder or tar of training images.
        out: RUN, the folder of the run.
        budget: seconds from the start, all attempts together, loading and compiling counted in; None for no limit.
        validation: images to validate on; where None, the part of `data` that is held out, if any.
        init: weights to start from: see `warm_start`.
        device: "auto", "cpu", "cuda" …
        cache: folder for decoded images; None for the user's.
        resume: go on from RUN's last checkpoint; otherwise one there is an error.
        tensorboard: None writes it where it is installed.
    """

    config: TrainConfig
    data: Path
    out: Path
    budget: float | None = None
    validation: Path | None = None
    init: Path | None = None
    device: str = "auto"
    cache: Path | None = None
    resume: bool = True
    tensorboard: bool | None = None


def train(job: Job, *, console: Console | None = None, progress: Callable[[int, int], None] | None = None) -> Outcome:
    """Train as `job` says. Under torchrun, every process calls this.

    Args:
        job: the run.
        console: where the live line goes; None for none.
        progress: called with (done, total) while images are decoded.
    """
    started = time.monotonic()
    if job.budget is not None and not 0 < job.budget < math.inf:
        raise UserError(f"the budget is {job.budget} s; it must be positive, and is left out for no limit")
    # Where a process fails, the others are told to stop while they still say why.
    with ExitStack() as until_the_end, processes(job.device) as ranks:
        return _train(job, ranks, until_the_end, started, console, progress)


def _train(
    job: Job,
    ranks: Ranks,
    until_the_end: ExitStack,
    started: float,
    console: Console | None,
    progress: Callable[[int, int], None] | None,
) -> Outcome:
    folder = RunFolder(job.out)
    snapshot = _snapshot_of(job, folder)
    if snapshot is not None and _is_finished(job, folder, snapshot):
        return Outcome(snapshot.step, snapshot.elapsed, None, snapshot.best_psnr, snapshot.skipped, was_finished=True)
    if snapshot is not None:
        _tell_how_it_goes_on(job, snapshot)
    set_up_backends(job.config.engine, ranks.device)
    # What may be wrong comes first: decoding the training images can take minutes.
    if ranks.is_main:
        check_folder(job.out)
    sampling_of(job.config, ranks)
    files = _find_images(job)
    held_out = _load_held_out(job, files) if ranks.is_main else []
    network = _initial_network(job, snapshot).to(ranks.device)
    images = _load_images(job, files, ranks, progress)
    if snapshot is not None and snapshot.data_key != images.key:
        log.warning("the training images differ from those this run began with")
    reports = _open_reports(job, ranks, snapshot, console)
    try:
        if ranks.is_main:
            folder.write_config(job.config)
        run = Run(
            job.config,
            network,
            images,
            held_out,
            ranks,
            folder,
            reports,
            started=started,
            budget=job.budget,
            snapshot=snapshot,
        )
        stop = until_the_end.enter_context(StopRequest())  # not before: until the first step there is nothing to save
        return run.until_done(stop)
    finally:
        reports.close()


def _snapshot_of(job: Job, folder: RunFolder) -> Snapshot | None:
    if not folder.last.exists():
        return None
    if not job.resume:
        raise UserError(f"{job.out}: holds a run already; choose another folder, or go on with it without --no-resume")
    snapshot = load_snapshot(folder.last)
    changed = [name for name in differences(snapshot.config, job.config) if not name.startswith(_FREE_SETTINGS)]
    if changed:
        stored = setting_names(snapshot.config)
        told = " ".join(f"--set {name}={_as_text(stored[name])}" for name in changed)
        raise UserError(f"{job.out}: holds a run with other settings; choose another folder or go on with it by {told}")
    return snapshot


def _tell_how_it_goes_on(job: Job, snapshot: Snapshot) -> None:
    log.info("going on from step %d", snapshot.step)
    if job.init is not None:
        log.warning("--init is left aside: this run has weights of its own")
    configs = (snapshot.config, job.config)
    before, now = (learning_rate(c.schedule, snapshot.step, snapshot.step, c.total_steps) for c in configs)
    same_clock = snapshot.config.schedule.clock == job.config.schedule.clock
    if before != now and same_clock and not follows_budget(job.config, job.budget):
        log.warning("with another number of steps the learning rate goes on at %.3g instead of %.3g", now, before)


def _as_text(value: object) -> str:
    """A setting's value as --set takes it, without blanks."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _is_finished(job: Job, folder: RunFolder, snapshot: Snapshot) -> bool:
    """Whether the run has come to its end and the network written there is that of its last checkpoint."""
    if not is_over(job.config, snapshot.step, snapshot.elapsed, job.budget) or not folder.model.exists():
        return False
    return folder.model.stat().st_mtime_ns >= folder.last.stat().st_mtime_ns


def _find_images(job: Job) -> list[ImageFile]:
    """What to train on; that there is something to validate on is asked here, too, since it takes no time."""
    files = find_images(job.data)
    if job.validation:
        refuse_absent(job.validation, "folder or tar of validation images; give another with --val")
    if not files:
        expected = f"expected {', '.join(SUFFIXES)}, loose or in tars"
        raise UserError(f"{job.data}: there are no images to train on; {expected}")
    return files


def _load_images(
    job: Job, files: list[ImageFile], ranks: Ranks, progress: Callable[[int, int], None] | None
) -> PackedImages:
    """The main process fills the cache, the others then find it full."""
    cache = job.cache or default_cache()
    if not ranks.is_main:
        ranks.wait_for_all()
    images = load_packed(files, job.config.model.scale, cache, progress=progress)
    if ranks.is_main:
        ranks.wait_for_all()
        pixels = images.hr.shape[0] / 1e6
        log.info("training images: %d, %.1f megapixels, %d skipped", len(images.names), pixels, len(images.skipped))
    return images


def _load_held_out(job: Job, training_files: list[ImageFile]) -> list[HeldOutImage]:
    files: list[ImageFile] = find_images(job.validation, "all") if job.validation else find_images(job.data, "held-out")
    if not files:
        if job.validation:
            raise UserError(f"{job.validation}: there are no images to validate on")
        log.warning("no images are held out: nothing will be validated; give some with --val")
        return []
    trained_on = {(file.path.resolve(), file.offset) for file in training_files}
    both = sum((file.path.resolve(), file.offset) in trained_on for file in files)
    if both:
        log.warning("%d of %d images to validate on are trained on, too: their PSNR says little", both, len(files))
    config, cadence = job.config, job.config.cadence
    return load_held_out(
        files,
        config.model.scale,
        limit=cadence.validation_images,
        crop=cadence.validation_crop,
        degrade=Degradation.of(config.data, VALIDATION_SEED, torch.device("cpu")),
    )


def fresh_network(config: TrainConfig) -> SRNetwork:
    """The network that a run begins with: a function of its seed."""
    torch.manual_seed(derive_seed(config.seed, _WEIGHT_STREAM))
    return SRNetwork(config.model)


def _initial_network(job: Job, snapshot: Snapshot | None) -> SRNetwork:
    network = fresh_network(job.config)
    if job.init is not None and snapshot is None:
        left_out = warm_start(network, job.init)
        log.info("started from %s%s", job.init, f", all but {_in_short(left_out)}" if left_out else "")
    return network


def _in_short(names: list[str]) -> str:
    """Weights by the modules they belong to."""
    return ", ".join(dict.fromkeys(re.sub(r"(\.conv[12])?\.(weight|bias)$", "", name) for name in names))


def _open_reports(job: Job, ranks: Ranks, snapshot: Snapshot | None, console: Console | None) -> Reports:
    if not ranks.is_main:
        return Reports([])
    total = None if follows_budget(job.config, job.budget) else job.config.total_steps
    return open_reports(job.out, snapshot.step if snapshot else -1, total, console, job.tensorboard)
