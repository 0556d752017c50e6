"""What each worker does: the network once, then picture after picture from URL to URL."""

import hashlib
import os
import socket
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from enlcn import freed_memory
from enlcn.cluster.attempts import Attempts
from enlcn.cluster.manifest import Row
from enlcn.cluster.storage import read_bytes, remove_leftovers_beside, write_bytes
from enlcn.data.image_io import MAX_PIXELS, check_can_write, encode_image, has_transparency, load_image
from enlcn.errors import UserError
from enlcn.upscaling import memory
from enlcn.upscaling.batch import Batch
from enlcn.upscaling.batch_options import BatchOptions
from enlcn.upscaling.engine_options import SMALLEST_LIMIT
from enlcn.upscaling.picture import upscale_image


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker is told when it starts.

    Attributes:
        out: URL of the folder of results.
        batch: model, size, precision: as for one machine.
        weights: the bytes of a model file of the machine that asks, or None where `batch.model` is a name.
        weights_name: what that file is called.
        retries: how often reading and writing are tried again.
        threads: of the CPU.
    """

    out: str
    batch: BatchOptions
    weights: bytes | None
    weights_name: str
    retries: int
    threads: int


class Worker:
    """Upscales batches of tasks; one of its kind lives in every worker process."""

    def __init__(self, options: WorkerOptions):
        freed_memory.keep()
        torch.set_num_threads(options.threads)
        self.options = options
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        batch = options.batch
        if options.weights is not None:
            self._folder = tempfile.TemporaryDirectory(prefix="enlcn-worker-")
            path = Path(self._folder.name) / options.weights_name
            path.write_bytes(options.weights)
            batch = replace(batch, model=str(path))
        self._batch = Batch(_with_memory_share(batch, options.threads))
        self._attempts = Attempts(options.out, options.retries) if _is_replacement() else None
        self._tidied: set[str] = set()

    def __call__(self, tasks: dict[str, Any]) -> dict[str, list[Any]]:
        """Columns source, target and format in, the columns of `Row` out."""
        names = zip(tasks["source"], tasks["target"], tasks["format"], strict=True)
        rows = [asdict(self.upscale(str(source), str(target), str(form))) for source, target, form in names]
        return {key: [row[key] for row in rows] for key in rows[0]}

    def upscale(self, source: str, target: str, format: str) -> Row:
        """One picture; what is wrong with it ends up in its row."""
        start = time.perf_counter()
        try:
            if self._attempts is not None:
                self._tidy_once(target)
                self._attempts.begin(source)
            row = self._upscale(source, target, format)
        except Exception as error:  # one bad picture does not stop a run over millions
            message = (
                str(error).splitlines()[0] if isinstance(error, UserError) else f"{source}: {memory.describe(error)}"
            )
            row = Row(source, target, "failed", message)
        if self._attempts is not None:
            with suppress(Exception):  # a mark that stays must not cost the row of a picture that is done
                self._attempts.finish(source)
        return replace(row, seconds=round(time.perf_counter() - start, 4), worker=self._name)

    def _tidy_once(self, target: str) -> None:
        """Delete what the worker that died left half written in a folder, should it have been on this host."""
        folder = target.rpartition("/")[0]
        if folder not in self._tidied:
            self._tidied.add(folder)
            remove_leftovers_beside([target])

    def _upscale(self, source: str, target: str, format: str) -> Row:
        options = self._batch.options
        data = read_bytes(source, self.options.retries)
        image = load_image(data, max_pixels=options.max_pixels or MAX_PIXELS, name=source)
        out_height, out_width = options.target.size(image.height, image.width)
        how: dict[str, Any] = {"quality": options.quality, "lossless": options.lossless, "name": target}
        transparent = options.background is None and has_transparency(image)
        check_can_write(format, out_width, out_height, transparent=transparent, **how)
        engine = self._batch.engine_for(image.height, image.width)
        result, _ = upscale_image(engine, image, options.target, background=options.background)
        encoded = encode_image(result, format, **how)
        write_bytes(target, encoded, self.options.retries)
        return Row(
            input=source,
            output=target,
            status="done",
            width=image.width,
            height=image.height,
            out_width=result.width,
            out_height=result.height,
            bytes=len(encoded),
            sha256=hashlib.sha256(encoded).hexdigest(),
        )


def _with_memory_share(batch: BatchOptions, threads: int) -> BatchOptions:
    """A worker on the CPU that was told no limit takes as much of the memory as it has of the cores."""
    engine = batch.engine
    if engine.limit is not None or engine.device != "cpu":
        return batch
    share = min(1.0, threads / (os.cpu_count() or 1))
    limit = max(SMALLEST_LIMIT, int(share * memory.default_limit(torch.device("cpu"))))
    return replace(batch, engine=replace(engine, memory_limit=limit))


def _is_replacement() -> bool:
    """Whether this process takes the place of a worker that died."""
    import ray

    return bool(ray.is_initialized() and ray.get_runtime_context().was_current_actor_reconstructed)
