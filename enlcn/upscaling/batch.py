"""Many pictures: each complete or not at all, a bad one reported without stopping the others."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from enlcn.data.image import Image, TooManyPixelsError
from enlcn.data.image_io import (
    MAX_PIXELS,
    check_can_write,
    encode_image,
    has_transparency,
    load_image,
    writing_notes,
)
from enlcn.errors import UserError
from enlcn.files import atomic_write, refuse_to_overwrite, remove_leftovers
from enlcn.upscaling import memory
from enlcn.upscaling.batch_options import BatchOptions
from enlcn.upscaling.devices import resolve_device, torch_threads
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import SMALLEST_LIMIT
from enlcn.upscaling.jobs import Job, why_absent
from enlcn.upscaling.large import LIMIT_ADVICE, is_large, upscale_large
from enlcn.upscaling.open_engine import open_engine
from enlcn.upscaling.picture import upscale_image
from enlcn.upscaling.streaming import Progress
from enlcn.zoo import is_path, resolve, trained_scale

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """What became of one picture.

    Attributes:
        source, target: "-" for standard input and output.
        status: "done", "skipped" or "failed".
        message: why it failed.
        seconds: from reading to the finished file.
        lr_size, sr_size: (width, height).
        model: the checkpoint that made it.
        mode, precision, tile, disk, notes: as in `RunReport`.
        jpeg_quality: as in `Image`.
        told: notes that were logged before the work began or while it was written; `notes` are those of the work.
    """

    source: str
    target: str
    status: str
    message: str = ""
    seconds: float = 0.0
    lr_size: tuple[int, int] | None = None
    sr_size: tuple[int, int] | None = None
    model: str | None = None
    mode: str | None = None
    precision: str | None = None
    tile: int | None = None
    disk: int = 0
    notes: tuple[str, ...] = ()
    jpeg_quality: int | None = None
    told: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data for a JSON report, which has all notes in one place."""
        values = asdict(self)
        return values | {"notes": (*values.pop("told"), *self.notes)}


class Batch:
    """Runs jobs with one engine per trained scale, made when first needed."""

    def __init__(self, options: BatchOptions):
        self.options = options
        self._engines: dict[str, Engine] = {}
        self._lock = threading.Lock()
        self._engine_options = options.engine
        if options.jobs > 1:
            limit = options.engine.limit or memory.default_limit(resolve_device(options.engine.device))
            share = max(limit // options.jobs, SMALLEST_LIMIT)
            self._engine_options = replace(options.engine, memory_limit=share)

    def run(self, jobs: list[Job], watch: Callable[[Job], Progress | None] = lambda job: None) -> Iterator[Outcome]:
        """Outcomes as pictures are finished; `watch` gives the progress callback of a job."""
        for folder in {job.target.parent for job in jobs if job.target is not None}:
            remove_leftovers(folder)
        if self.options.jobs == 1:
            for job in jobs:
                yield self.run_one(job, watch(job))
            return
        threads = max(1, torch.get_num_threads() // self.options.jobs)
        with torch_threads(threads), ThreadPoolExecutor(self.options.jobs) as pool:
            try:
                waiting = [pool.submit(self.run_one, job, watch(job)) for job in jobs]
                for finished in as_completed(waiting):
                    yield finished.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # no others are begun
                raise

    def run_one(self, job: Job, progress: Progress | None = None) -> Outcome:
        """Upscale one picture; what is wrong with it ends up in the outcome."""
        start = time.perf_counter()
        names = job.names
        if job.target is not None and job.target.exists() and self.options.skip_existing:
            return Outcome(*names, status="skipped")
        try:
            facts = self._upscale(job, progress)
        except UserError as error:
            return Outcome(*names, status="failed", message=str(error), seconds=time.perf_counter() - start)
        except OSError as error:
            message = f"{names[1]}: cannot be written ({error.strerror or error})"
            return Outcome(*names, status="failed", message=message, seconds=time.perf_counter() - start)
        except Exception as error:  # whatever is wrong with one picture, the others are still to be done
            log.debug("while upscaling %s", names[0], exc_info=True)
            message = f"{names[0]}: {memory.describe(error)}"
            return Outcome(*names, status="failed", message=message, seconds=time.perf_counter() - start)
        return Outcome(*names, status="done", seconds=time.perf_counter() - start, **facts)

    def _upscale(self, job: Job, progress: Progress | None) -> dict[str, Any]:
        options = self.options
        if job.target is not None:
            refuse_to_overwrite(job.target, options.overwrite, can_skip=True)
        if job.source is not None and (absent := why_absent(job.source)):
            raise UserError(f"{job.source}: {absent}")
        if job.source is not None and job.target is not None and is_large(job.source, options):
            return upscale_large(self, job, progress)
        start = time.perf_counter()
        image = self._load(job)
        out_height, out_width = options.target.size(image.height, image.width)
        check_can_write(
            job.format,
            out_width,
            out_height,
            transparent=options.background is None and has_transparency(image),
            quality=options.quality,
            lossless=options.lossless,
            name=str(job.target or "standard output"),
        )
        log.debug("%s: %dx%d read in %.2f s", job.names[0], image.width, image.height, time.perf_counter() - start)
        engine = self.engine_for(image.height, image.width)
        result, report = upscale_image(engine, image, options.target, progress, options.background)
        start = time.perf_counter()
        encoded = encode_image(
            result, job.format, quality=options.quality, lossless=options.lossless, name=str(job.target or "output")
        )
        if job.target is None:
            sys.stdout.buffer.write(encoded)
            sys.stdout.buffer.flush()
        else:
            with atomic_write(job.target, overwrite=options.overwrite) as temporary:
                temporary.write_bytes(encoded)
        seconds = time.perf_counter() - start
        log.debug("%s: %s of %.1f MiB written in %.2f s", job.names[1], job.format, len(encoded) / 2**20, seconds)
        facts = asdict(report)
        facts.pop("seconds")
        sizes = {"lr_size": (image.width, image.height), "sr_size": (result.width, result.height)}
        told = (*image.notes, *writing_notes(job.format, result.bits, result.iptc))
        model = self.checkpoint_for(image.height, image.width)
        return facts | sizes | {"model": model, "jpeg_quality": image.jpeg_quality, "told": told}

    def _load(self, job: Job) -> Image:
        data = sys.stdin.buffer.read() if job.source is None else job.source
        most = self.options.max_pixels or MAX_PIXELS
        try:
            return load_image(data, max_pixels=most, name=str(job.source or "standard input"))
        except TooManyPixelsError as error:
            raise UserError(f"{error}; {LIMIT_ADVICE}") from None

    def checkpoint_for(self, height: int, width: int) -> str:
        """The model whose trained scale reaches the size wanted of an input of height x width, by its full name."""
        model = self.options.model
        if model is not None and is_path(model):
            return model
        return resolve(model, trained_scale(self.options.target.factor(height, width), model))

    def engine_for(self, height: int, width: int) -> Engine:
        """The engine of `checkpoint_for` that."""
        name = self.checkpoint_for(height, width)
        with self._lock:
            if name not in self._engines:
                self._engines[name] = open_engine(name, self._engine_options)
            return self._engines[name]
