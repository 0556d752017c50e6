"""The run, top to bottom: step, read, validate, save, until the steps or the budget are used up."""

import copy
import logging
import time
from dataclasses import dataclass, fields

import torch

from enlcn.checkpoint import save as save_network
from enlcn.data.batch import BatchConfig
from enlcn.data.crops import Sampling
from enlcn.data.patches import open_patches
from enlcn.data.shards import PackedImages
from enlcn.errors import UserError
from enlcn.files import atomic_write, patient_file
from enlcn.models.backbone import SRNetwork
from enlcn.train.config import TrainConfig
from enlcn.train.distributed import Ranks
from enlcn.train.reporting import Reports, TrainRecord, ValidationRecord
from enlcn.train.schedule import contrast_is_on, follows_budget, is_over, learning_rate, position, redraw_is_on
from enlcn.train.snapshot import RunFolder, Snapshot, take
from enlcn.train.step import Readings, TrainStep
from enlcn.train.stopping import StopRequest
from enlcn.train.validation import HeldOutImage, validate

log = logging.getLogger(__name__)
# Processes must stop after the same step and use one clock for the learning rate; agreeing costs a round trip.
_STEPS_BETWEEN_AGREEMENTS = 10
# Where the disk is slow, checkpoints by the clock take at most this share of a run.
_SAVING_SHARE = 0.02


@dataclass(frozen=True)
class Outcome:
    """How a run ended: steps done, seconds used, PSNR at the end and at best (None without held-out images).

    `was_finished`: there was nothing left to do, and nothing was done.
    """

    step: int
    elapsed: float
    psnr: float | None
    best_psnr: float | None
    skipped: int
    stopped_by: int | None = None
    was_finished: bool = False


class Run:
    """A training run between its start and its end.

    Args:
        config: what to train.
        network: on its device, initialised.
        images: what to train on.
        held_out: what to validate on; may be empty.
        ranks: this process among the others.
        folder: where files go.
        reports: where records go.
        started: time.monotonic() from which the budget counts.
        budget: seconds, of all attempts together; None for no limit.
        snapshot: where to go on from.
    """

    def __init__(
        self,
        config: TrainConfig,
        network: SRNetwork,
        images: PackedImages,
        held_out: list[HeldOutImage],
        ranks: Ranks,
        folder: RunFolder,
        reports: Reports,
        *,
        started: float,
        budget: float | None = None,
        snapshot: Snapshot | None = None,
    ):
        self.config, self.ranks, self.folder, self.reports = config, ranks, folder, reports
        self.held_out, self.data_key, self.budget = held_out, images.key, budget
        patches = open_patches(images, sampling_of(config, ranks), ranks.device, config.data.placement)
        self.state = TrainStep(network, config, patches, ranks)
        self.psnr: float | None = None
        self.best_psnr: float | None = None
        self.skipped = 0
        self._started = started
        if snapshot is not None:
            snapshot.restore(self.state)
            self.best_psnr, self.skipped = self._best_before(snapshot), snapshot.skipped
            self._started -= snapshot.elapsed
        self._clock, self._stopped_by = 0.0, 0  # the main process's, and the signal that any process was sent
        self._agree_at = self.state.step
        self._read_at = (self.state.step, time.monotonic())
        self._saved_at, self._saving_took = time.monotonic(), 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the start, earlier attempts counted in."""
        return time.monotonic() - self._started

    def until_done(self, stop: StopRequest) -> Outcome:
        """Train to the end of steps or budget, or until asked to stop; what was reached is saved in any case."""
        try:
            while self._goes_on(stop):
                self._advance()
                self._do_what_is_due()
            self._finish(complete=not self._stopped_by)
        except UserError:
            raise
        except Exception as error:
            if self.ranks.is_alone or not self.ranks.is_main:
                raise
            raise self._process_failed(error) from error
        return Outcome(
            self.state.step, self.elapsed, self.psnr, self.best_psnr, self.skipped, stopped_by=self._stopped_by or None
        )

    def averaged_network(self) -> SRNetwork:
        """The network to look at: the average of the weights where one is kept, with the current F."""
        network = copy.deepcopy(self.state.network).eval()
        if self.state.average is not None:
            self.state.average.copy_to(network.parameters(), self.state.step)
        return network

    def _goes_on(self, stop: StopRequest) -> bool:
        """Whether there is another step to do: the same on every process, since each waits for the others in it."""
        if self.ranks.is_alone:
            self._clock, self._stopped_by = self.elapsed, stop.signal or 0
        elif self.state.step >= self._agree_at:
            self._agree_at = self.state.step + _STEPS_BETWEEN_AGREEMENTS
            elapsed = self.elapsed if self.ranks.is_main else 0.0
            told = torch.tensor([elapsed, stop.signal or 0], dtype=torch.float64, device=self.ranks.device)
            self._clock, signal = self.ranks.largest(told).tolist()
            self._stopped_by = int(signal)
        return not self._stopped_by and not is_over(self.config, self.state.step, self._clock, self.budget)

    def _advance(self) -> None:
        at = position(self.config, self.state.step, self._clock, self.budget)
        self.state.advance(
            self._learning_rate(at), contrast_is_on(self.config, at), may_redraw=redraw_is_on(self.config, at)
        )

    def _learning_rate(self, at: float) -> float:
        return learning_rate(self.config.schedule, at, self.state.step, self.config.total_steps)

    def _do_what_is_due(self) -> None:
        cadence, step = self.config.cadence, self.state.step
        if step % cadence.log == 0:
            self._read()
        best_so_far = _is_due(step, cadence.validate) and self._validate()
        keep = _is_due(step, cadence.keep)
        if best_so_far or keep or _is_due(step, cadence.checkpoint) or self._was_saved_long_ago():
            self._save()
            if best_so_far:
                self._keep_as_best()
            if keep and self.ranks.is_main:
                self.folder.keep_last_as(self.folder.kept(step))

    def _read(self) -> None:
        readings = self.state.read()
        self.skipped = readings.skipped
        if readings.longest_bad_run >= self.config.optimizer.max_bad_steps:
            raise self._too_many_bad_steps(readings)
        now, step = time.monotonic(), self.state.step
        steps, seconds = step - self._read_at[0], max(now - self._read_at[1], 1e-9)
        self._read_at = (step, now)
        if steps == 0 or not self.ranks.is_main:
            return
        at = position(self.config, step, self._clock, self.budget)
        record = TrainRecord(
            step=step,
            elapsed=self.elapsed,
            loss=readings.loss,
            contrastive=readings.contrastive,
            learning_rate=self._learning_rate(at),
            images_per_second=steps * self.config.data.batch_size / seconds,
            skipped=readings.skipped,
            seconds_left=self._seconds_left(seconds / steps),
        )
        self.reports.on_train(record)

    def _seconds_left(self, seconds_per_step: float) -> float:
        by_steps = (self.config.total_steps - self.state.step) * seconds_per_step
        by_budget = max(0.0, self.budget - self.elapsed) if self.budget is not None else by_steps
        return by_budget if follows_budget(self.config, self.budget) else min(by_steps, by_budget)

    def _validate(self) -> bool:
        """Whether this is the best network so far."""
        if not self.held_out or not self.ranks.is_main:
            return False
        before = time.monotonic()
        result = validate(self.averaged_network(), self.held_out, self.ranks.device)
        first = self.held_out[0]
        self.psnr = result.psnr
        record = ValidationRecord(self.state.step, self.elapsed, result.psnr)
        self.reports.on_validation(record, {"lr": first.lr, "sr": result.sample, "hr": first.hr})
        # Speed is that of training.
        self._read_at = (self._read_at[0], self._read_at[1] + time.monotonic() - before)
        if self.best_psnr is not None and result.psnr <= self.best_psnr:
            return False
        self.best_psnr = result.psnr
        return True

    def _save(self) -> None:
        before = time.monotonic()
        if self.ranks.is_main:
            snapshot = take(
                self.state,
                elapsed=self.elapsed,
                best_psnr=self.best_psnr,
                data_key=self.data_key,
                held_out=self._held_out_names(),
            )
            self.folder.save(snapshot)
        self._saved_at = time.monotonic()
        self._saving_took = self._saved_at - before

    def _held_out_names(self) -> list[str]:
        """Which images are validated on, and how much of them."""
        return [f"{image.name} {tuple(image.lr.shape[-2:])}" for image in self.held_out]

    def _best_before(self, snapshot: Snapshot) -> float | None:
        """The best PSNR of earlier attempts, where it is of the same images."""
        if not self.held_out or snapshot.held_out in (None, self._held_out_names()):
            return snapshot.best_psnr
        log.warning("the held-out images differ from those this run was validated on: the best PSNR begins anew")
        return None

    def _was_saved_long_ago(self) -> bool:
        limit = self.config.cadence.checkpoint_seconds
        return limit > 0 and time.monotonic() - self._saved_at >= max(limit, self._saving_took / _SAVING_SHARE)

    def _keep_as_best(self) -> None:
        self.folder.keep_last_as(self.folder.best)

    def _finish(self, *, complete: bool) -> None:
        self._read()
        validated = self.psnr is not None and _is_due(self.state.step, self.config.cadence.validate)
        best_so_far = complete and not validated and self._validate()
        self._save()
        if best_so_far:
            self._keep_as_best()
        if complete and self.ranks.is_main:
            save_network(self.averaged_network(), self.folder.model, overwrite=True)
        self.ranks.wait_for_all()

    def _too_many_bad_steps(self, readings: Readings) -> UserError:
        """Keep the batch that did it, and the weights as they were before it: bad steps change none."""
        step = readings.last_bad_step
        self.state.patches.prepare(step)
        lr, hr = self.state.patches.draw(torch.tensor(step, device=self.ranks.device))
        path = self.folder.path / f"bad-batch-step-{step}-rank-{self.ranks.rank}.pt"
        with atomic_write(path, overwrite=True) as temporary, patient_file(temporary) as file:
            torch.save({"step": step, "lr": lr.cpu(), "hr": hr.cpu()}, file)
        self._save()
        return UserError(
            f"loss or gradient was not finite {readings.longest_bad_run} times in a row, until step {step}; "
            f"its batch is kept in {path}, the weights before it in {self.folder.last}"
        )

    def _process_failed(self, error: Exception) -> UserError:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        try:
            self._save()
            saved = f"step {self.state.step} is saved"
        except Exception:  # the device itself may be gone
            log.debug("saving failed", exc_info=True)
            saved = "the last checkpoint stands"
        return UserError(
            f"a process of this job failed after step {self.state.step} ({reason}); {saved} in {self.folder.last}: "
            "run the same command to go on"
        )


def sampling_of(config: TrainConfig, ranks: Ranks) -> Sampling:
    """The batches that a run asks for, and this process's share of them."""
    batch = {field.name: getattr(config.data, field.name) for field in fields(BatchConfig)}
    return Sampling(**batch, seed=config.seed, rank=ranks.rank, world_size=ranks.world_size)


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
