"""A run over a cluster: tasks out, rows back, as many in flight as the workers can take."""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from enlcn.checkpoint import UNTRAINED_PREFIX
from enlcn.cluster.connection import Connection, ray_module
from enlcn.cluster.execution import Execution, rows_through_client
from enlcn.cluster.manifest import Manifest, Row
from enlcn.cluster.options import ClusterOptions
from enlcn.cluster.plan import Task
from enlcn.cluster.presence import at_work
from enlcn.cluster.storage import absolute, files_under, open_storage, remove_leftovers_beside, told_in_one_line
from enlcn.cluster.worker import WorkerOptions
from enlcn.data.image_io import check_can_write
from enlcn.errors import UserError
from enlcn.upscaling.batch import Batch
from enlcn.upscaling.batch_options import BatchOptions
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.target import Target
from enlcn.zoo import bundled, locate, native_scale

log = logging.getLogger(__name__)

_MOST_CHUNKS = 20_000
_LARGEST_CHUNK = 8
_EXISTS = "exists already; pass --overwrite to replace it"


@dataclass(frozen=True)
class Summary:
    """What a run did: pictures done, failed, and skipped because they were done before; the manifest's URL."""

    done: int
    failed: int
    skipped: int
    manifest: str


def run_cluster(
    tasks: list[Task], out: str, options: ClusterOptions, progress: Callable[[Row | None, int], None] | None = None
) -> Summary:
    """Upscale pictures on a Ray cluster.

    Args:
        tasks: what `plan_cluster` gave.
        out: the folder of the results, where the manifest goes too.
        options: where and how.
        progress: called with each new row (None at the start) and the number of pictures to do.
    """
    _check(tasks, options)
    weights, weights_name = _weights(options.model)
    out = absolute(out)
    manifest = Manifest(out)
    with ExitStack() as until_the_end:
        with told_in_one_line(out):
            still_here = until_the_end.enter_context(at_work(out, manifest.run))
            resumed = manifest.open(_settings(options, weights), overwrite=options.overwrite)
            remove_leftovers_beside(task.target for task in tasks)
            sizes = files_under(out)
        left = [task for task in tasks if not manifest.is_done(task.target, sizes)]
        foreign = [] if options.overwrite else [task for task in left if _is_foreign(task, manifest, sizes, resumed)]
        report = progress or (lambda row, total: None)
        report(None, len(left))
        done = failed = 0
        for task in foreign:
            row = Row(task.source, task.target, "failed", f"{task.target}: {_EXISTS}")
            manifest.add(row)
            failed += 1
            report(row, len(left))
        manifest.flush()
        skipped = set(foreign)
        ours = [task for task in left if task not in skipped]
        try:
            if ours:
                for row in _rows(ours, out, options, weights, weights_name):
                    manifest.add(row)
                    done, failed = done + (row.status == "done"), failed + (row.status != "done")
                    report(row, len(left))
                    still_here()
        except BaseException:
            manifest.flush()  # what is done stays known
            raise
        remove_leftovers_beside(task.target for task in ours)
        path = manifest.close(task.target for task in tasks)
    return Summary(done, failed, len(tasks) - len(left), path)


def _check(tasks: list[Task], options: ClusterOptions) -> None:
    """What is wrong with the model or the format is one error here, or one for each picture there."""
    for form in dict.fromkeys(task.format for task in tasks):
        check_can_write(form, 1, 1, transparent=False, quality=options.quality, lossless=options.lossless)
    target = options.target
    if target.scale is None:  # how much larger depends on the picture
        target = Target(scale=native_scale(options.model))
    Batch(BatchOptions(target, options.model, EngineOptions(device="cpu"))).engine_for(64, 64)


def _is_foreign(task: Task, manifest: Manifest, sizes: dict[str, int], resumed: bool) -> bool:
    """Whether a file that stands where a result goes is none of ours.

    All that was there when a run began is foreign, and has a row that says so before any work. What else a resumed run
    finds without a row is its own: written just before it was killed.
    """
    if open_storage(task.target)[1] not in sizes:
        return False
    row = manifest.rows.get(task.target)
    return not resumed or (row is not None and row.error.endswith(_EXISTS))


def _rows(
    tasks: list[Task], out: str, options: ClusterOptions, weights: bytes | None, weights_name: str
) -> Iterator[Row]:
    """A row for every task, once each, as workers finish them."""
    with Connection(options) as connection:
        gpus, workers = _share(options)
        chunk = options.chunk or max(1, min(_LARGEST_CHUNK, len(tasks) // (4 * workers)))
        chunks = min(-(-len(tasks) // chunk), _MOST_CHUNKS)
        workers = min(workers, chunks)
        device = options.engine.device
        if device == "auto":
            device = "cuda" if gpus else "cpu"
        batch = BatchOptions(
            options.target,
            options.model,
            replace(options.engine, device=device),
            options.quality,
            options.lossless,
            max_pixels=options.max_pixels,
            background=options.background,
        )
        threads = max(1, int(options.cpus_per_worker))
        worker = WorkerOptions(out, batch, weights, weights_name, options.retries, threads)
        execution = Execution(tuple(tasks), chunks, worker, workers, options.cpus_per_worker, gpus)
        rows = rows_through_client(execution) if connection.is_client else execution.rows()
        waiting = {task.target: task for task in tasks}
        try:
            for row in rows:
                if waiting.pop(row.output, None) is not None:  # a chunk done again gives its rows again
                    yield row
        except UserError:
            raise
        except Exception as error:  # workers that cannot start, a head that is gone
            log.debug("while Ray was at work", exc_info=True)
            told = (str(error).splitlines() or [""])[0]
            raise UserError(
                f"Ray gave up ({type(error).__name__}: {told}); {len(waiting)} of {len(tasks)} pictures are left: "
                "run it again to go on"
            ) from None
        for task in waiting.values():
            yield Row(task.source, task.target, "failed", f"{task.source}: lost with its worker; run it again")


def _share(options: ClusterOptions) -> tuple[float, int]:
    """GPUs of a worker, and how many workers there may be."""
    there = ray_module().cluster_resources()
    gpus = options.gpus_per_worker
    if gpus is None:
        gpus = 1.0 if there.get("GPU", 0) >= 1 and options.engine.device in ("auto", "cuda") else 0.0
    room = int(there.get("CPU", 0) / options.cpus_per_worker)
    if gpus:
        room = min(room, int(there.get("GPU", 0) / gpus))
    if room < 1:
        have = f"{there.get('CPU', 0):g} CPUs and {there.get('GPU', 0):g} GPUs"
        raise UserError(
            f"no worker of {options.cpus_per_worker:g} CPUs and {gpus:g} GPUs fits a cluster of {have}; ask for less"
        )
    return gpus, min(options.workers or room, room)


def _weights(model: str | None) -> tuple[bytes | None, str]:
    """The bytes and file name of a model that workers elsewhere may not have; None for what is part of the package."""
    if model is None or model.startswith(UNTRAINED_PREFIX) or model in bundled():
        return None, ""
    path = locate(model)
    if path.is_dir():
        path = path / "model.safetensors"
    return (path.read_bytes(), path.name) if path.is_file() else (None, "")


def _settings(options: ClusterOptions, weights: bytes | None) -> dict[str, Any]:
    """What results depend on: a run goes on with another only where all this is the same."""
    target = options.target
    background = {} if options.background is None else {"background": list(options.background)}
    return background | {
        "model": options.model if weights is None else hashlib.sha256(weights).hexdigest(),
        "size": [target.scale, target.width, target.height],
        "precision": options.engine.precision,
        "self_ensemble": options.engine.self_ensemble,
        "quality": [options.quality, options.lossless],
    }
