"""Training the runs of a reproduction: one after the other, or in several processes that share the decoded images."""

import gc
import logging
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from enlcn import freed_memory
from enlcn.errors import UserError
from enlcn.reproduce.material import Material
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import RunSpec, config_of, key_of
from enlcn.reproduce.split import Sources
from enlcn.reproduce.store import Store
from enlcn.reproduce.training import perform

log = logging.getLogger(__name__)
_MAX_ATTEMPTS = 3
_SECONDS_TO_SAVE = 30.0


@dataclass(frozen=True)
class Work:
    """All that a process must know to train runs; `jobs` of them share the device."""

    preset: Preset
    steps: int
    sources: Sources
    device: str
    out: Path
    deadline: float
    threads: int | None = None
    jobs: int = 1


def train_all(
    runs: Sequence[RunSpec],
    work: Work,
    material: Material,
    *,
    on_done: Callable[[], None] | None = None,
    on_step: Callable[[int], None] | None = None,
) -> list[RunSpec]:
    """Train what is not trained yet, until the deadline.

    Args:
        runs: without doubles.
        work: how, and in how many processes at a time.
        material: this process's pictures, used where it trains alone.
        on_done: called after each run.
        on_step: called now and then with the step that a run is at, where this process trains alone.

    Returns:
        The runs that are left: the deadline came first, or they failed, which is logged.
    """
    store = Store(work.out)
    waiting = [spec for spec in runs if store.run(key_of(config_of(spec, work.preset, work.steps))) is None]
    if not waiting:
        return []
    if work.jobs == 1:
        for spec in waiting:
            if time.time() < work.deadline and _attempt(spec, work, material, on_step) and on_done:
                on_done()
    else:
        _in_processes(waiting, work, min(work.jobs, len(waiting)), on_done)
    return [spec for spec in waiting if store.run(key_of(config_of(spec, work.preset, work.steps))) is None]


def _in_processes(waiting: list[RunSpec], work: Work, jobs: int, on_done: Callable[[], None] | None) -> None:
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    for attempt in range(_MAX_ATTEMPTS):
        store = Store(work.out)
        missing = [spec for spec in waiting if store.run(key_of(config_of(spec, work.preset, work.steps))) is None]
        if not missing or time.time() >= work.deadline:
            return
        # A run that kills its process must not do so first each time.
        order = missing[attempt:] + missing[:attempt]
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            futures = [pool.submit(_work_on, spec, work) for spec in order]
            try:
                for future in as_completed(futures):
                    if future.result() and on_done:
                        on_done()
                return
            except BrokenProcessPool:
                log.error("a training process died; the finished runs are kept")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                _stop(multiprocessing.active_children())
                raise


def _stop(processes: Sequence[BaseProcess]) -> None:
    """Ask training processes to end, which saves the runs they are at; those that do not are killed."""
    for process in processes:
        process.terminate()
    end = time.monotonic() + _SECONDS_TO_SAVE
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()


@lru_cache(maxsize=1)
def _material(sources: Sources, preset: Preset, device: str) -> Material:
    return Material(sources, preset, torch.device(device))


def _work_on(spec: RunSpec, work: Work) -> bool:
    """In a process of its own: pictures are read for the first run and kept for the next."""
    freed_memory.keep()
    if work.threads is not None:
        torch.set_num_threads(work.threads)
    if time.time() >= work.deadline:
        return False
    try:
        finished = _attempt(spec, work, _material(work.sources, work.preset, work.device))
    except KeyboardInterrupt:
        os._exit(130)  # the run is saved; the pool would have this process take the next
    if not finished and time.time() < work.deadline and not _is_healthy(torch.device(work.device)):
        os._exit(1)  # after some errors a GPU answers no process that saw them
    return finished


def _is_healthy(device: torch.device) -> bool:
    try:
        return torch.ones(1, device=device).add(1).item() == 2
    except RuntimeError:
        return False


def _attempt(spec: RunSpec, work: Work, material: Material, on_step: Callable[[int], None] | None = None) -> bool:
    """Whether a run is finished; one that fails does not stop the others."""
    try:
        store = Store(work.out)
        return perform(spec, work.preset, work.steps, material, store, work.deadline, work.jobs, on_step)
    except UserError as error:
        log.error("%s, seed %d: %s", spec.recipe, spec.seed, error)
    except Exception as error:  # out of memory, a kernel that does not compile: the others may well run
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        log.error("%s, seed %d failed: %s", spec.recipe, spec.seed, reason)
        log.debug("traceback", exc_info=True)
    finally:
        if material.device.type == "cuda":
            gc.collect()  # captured steps and what they hold refer to each other
            torch.cuda.empty_cache()
    return False
