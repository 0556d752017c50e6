"""Tasks through Ray Data, rows back as they are made; driven from here, or from within the cluster."""

import queue
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from enlcn.cluster.connection import ray_module
from enlcn.cluster.manifest import Row
from enlcn.cluster.plan import Task
from enlcn.cluster.worker import Worker, WorkerOptions

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Execution:
    """What Ray Data is to do.

    Attributes:
        tasks: the pictures.
        chunks: how many parts they are cut into; what a dead worker was at is done again, part by part.
        worker: what each worker is told.
        workers: how many there are.
        cpus, gpus: of each.
    """

    tasks: tuple[Task, ...]
    chunks: int
    worker: WorkerOptions
    workers: int
    cpus: float
    gpus: float

    def rows(self) -> Iterator[Row]:
        """Rows as workers finish them; those of a part that was done again come again."""
        ray = ray_module()
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.max_errored_blocks = -1  # what is missing in the end gets a row that says so
        dataset = ray.data.from_items([asdict(task) for task in self.tasks], override_num_blocks=self.chunks)
        # A worker that dies comes back and has its part again: Ray Data's default. attempts.py puts an end to it.
        dataset = dataset.map_batches(
            Worker,
            fn_constructor_args=[self.worker],
            batch_size=1,
            # One part at work and one waiting: workers are never idle, and little is lost with one of them.
            compute=ray.data.ActorPoolStrategy(size=self.workers, max_tasks_in_flight_per_actor=2),
            num_cpus=self.cpus,
            num_gpus=self.gpus,
        )
        names = [f.name for f in fields(Row)]
        for item in dataset.iter_rows():
            yield Row(**{name: item[name] for name in names})


class Driver:
    """Drives an execution from within the cluster: rows wait here until they are taken."""

    def __init__(self, execution: Execution):
        self._rows: queue.SimpleQueue[Row] = queue.SimpleQueue()
        self._error: str | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._run, args=(execution,), daemon=True).start()

    def take(self) -> tuple[list[Row], bool, str | None]:
        """Rows since the last call, whether there will be no more, and why, where that is an error."""
        ended = self._ended.is_set()  # before the queue is emptied: nothing comes after
        rows = []
        while not self._rows.empty():
            rows.append(self._rows.get())
        return rows, ended, self._error

    def _run(self, execution: Execution) -> None:
        try:
            for row in execution.rows():
                self._rows.put(row)
        except Exception as error:  # told where the rows are taken
            self._error = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        self._ended.set()


def rows_through_client(execution: Execution) -> Iterator[Row]:
    """The same rows, with the execution driven by an actor of the cluster: Ray Data cannot be driven by a client."""
    driver: Any = ray_module().remote(num_cpus=0)(Driver).remote(execution)
    ended = False
    while not ended:
        rows, ended, error = ray_module().get(driver.take.remote())
        yield from rows
        if error is not None:
            raise RuntimeError(error)
        if not ended and not rows:
            time.sleep(_POLL_SECONDS)
