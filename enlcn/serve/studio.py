"""The state of a server: which requests wait, which run, what is kept, and for how long."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from enlcn.serve.config import ServeConfig
from enlcn.serve.fair_queue import FairQueue
from enlcn.serve.jobs import Job, Result, State, StoppedError, Watch, Work
from enlcn.serve.journal import Journal
from enlcn.serve.metrics import Metrics
from enlcn.serve.problems import Problem, retry_later
from enlcn.serve.storage import Storage
from enlcn.serve.turns import Turns

log = logging.getLogger(__name__)
_LONGEST_RETRY = 30.0
_LATE = 2.0  # seconds after its Retry-After for which a client's turn is kept
_IDLE_SECONDS = 1.0  # without work
_USUAL_SECONDS = 0.05  # what a job is taken to need before any has been timed: little, so that all come back soon


class Studio:
    """Jobs from their admission to the end of their result's life. All methods are thread-safe."""

    def __init__(self, config: ServeConfig, journal: Journal | None = None):
        self.config = config
        self.journal = journal or Journal()
        self.storage = Storage(config.stored_bytes)
        self.metrics = Metrics()
        self.probes = asyncio.Semaphore(2)  # reading a header holds the file in memory
        self._jobs: dict[str, Job] = {}
        self._queue: FairQueue[Job] = FairQueue()
        self._reserved: dict[str, int] = {}
        self._turns = Turns(config.queue_length)
        self._running: set[Job] = set()
        self._draining = False
        self._stop_at = math.inf
        self._mean_seconds = _USUAL_SECONDS
        self._changed = threading.Condition()

    # Admission

    @contextmanager
    def reserve(self, client: str) -> Iterator["Place"]:
        """A place in the queue, held while the picture is uploaded and checked; given back if it comes to nothing."""
        with self._changed:
            if self._draining:
                raise retry_later("shutting-down", "the server is stopping and takes no more work", 10)
            now = time.monotonic()
            free = self.config.queue_length - len(self._queue) - sum(self._reserved.values())
            if not self._turns.admits(client, free, now):
                seconds = self.retry_after(self._turns.before(client))
                self._turns.refuse(client, now + seconds + _LATE)
                self.metrics.count("enlcn_rejected_total", reason="queue-full")
                raise retry_later("queue-full", f"all {self.config.queue_length} places are taken", seconds)
            if self._queue.waiting(client) + self._reserved.get(client, 0) >= self.config.queue_per_client:
                self.metrics.count("enlcn_rejected_total", reason="client-queue-full")
                detail = f"{self.config.queue_per_client} of your requests wait already"
                raise retry_later("client-queue-full", detail, self.retry_after())
            self._reserved[client] = self._reserved.get(client, 0) + 1
        place = Place(self, client)
        try:
            yield place
        finally:
            place.give_back()

    def retry_after(self, before: int = 0) -> float:
        """Seconds after which one place more than those `before` should have fallen free."""
        seconds = self._mean_seconds * (before + 1) / len(self.config.devices)
        return float(min(_LONGEST_RETRY, max(1, math.ceil(seconds))))

    def _unreserve(self, client: str) -> None:
        self._reserved[client] -= 1
        if not self._reserved[client]:
            del self._reserved[client]

    def _submit(self, client: str, work: Work, facts: dict[str, Any]) -> Job:
        job = Job(client, work, facts)
        with self._changed:
            self._unreserve(client)
            if self._draining:
                raise retry_later("shutting-down", "the server is stopping and takes no more work", 10)
            self._jobs[job.id] = job
            self._queue.put(client, job, work.cost)
            self._changed.notify()
        return job

    # What workers call

    def next_job(self, when_idle: Callable[[], None]) -> Job | None:
        """Wait for work; None when there will be no more. `when_idle` is called where it is some time coming."""
        with self._changed:
            has_work = self._changed.wait_for(self._has_news, _IDLE_SECONDS)
        if not has_work:
            when_idle()
        with self._changed:
            self._changed.wait_for(self._has_news)
            if not len(self._queue):
                return None
            job = self._queue.take()
            job.state, job.started = State.running, time.time()
            self._running.add(job)
            queued = self._queue.order()
        job.changed()
        for other in queued:  # their places have moved
            other.changed()
        return job

    def _has_news(self) -> bool:
        return len(self._queue) > 0 or self._draining

    def run(self, job: Job, toolbox: Any) -> None:
        """Do a job's work on a device; whatever happens ends up in the job."""
        began = time.monotonic()
        try:
            result = job.work(toolbox, Watch(job, self.config.job_seconds))
        except StoppedError as stopped:
            # A cancelled job asked for its end; one that ran out of time did not.
            state = State.cancelled if stopped.problem.kind == "job-cancelled" else State.failed
            self._finish(job, state, problem=stopped.problem)
        except Problem as problem:
            self._finish(job, State.failed, problem=problem)
        except Exception as error:
            log.exception("job failed")
            self._finish(job, State.failed, problem=Problem("job-failed", type(error).__name__))
        else:
            seconds = time.monotonic() - began
            self._mean_seconds += 0.2 * (seconds - self._mean_seconds)
            self.metrics.observe("enlcn_job_seconds", seconds, kind=job.facts.get("kind", "other"))
            self._finish(job, State.done, result=result)

    def _finish(self, job: Job, state: State, *, problem: Problem | None = None, result: Result | None = None) -> None:
        with self._changed:
            self._running.discard(job)
            wanted = job.id in self._jobs
            job.result = result if wanted else None
            job.fraction = 1.0 if state == State.done else job.fraction
            job.problem, job.finished = problem.fresh() if problem is not None else None, time.time()
            job.touch()
            job.state = state  # last: whoever sees the end sees all of it
            self._changed.notify_all()
        job.work.discard()
        if result is not None and not wanted:
            result.discard()
        self.metrics.count("enlcn_jobs_total", kind=job.facts.get("kind", "other"), state=state.value)
        self.journal.job(job)
        job.changed()

    # What clients ask

    def find(self, job_id: str) -> Job:
        """A job by its id, or the problem that there is none."""
        with self._changed:
            job = self._jobs.get(job_id)
        if job is None:
            raise no_such_job()
        job.touch()
        return job

    def position(self, job: Job) -> int | None:
        """How many jobs are before it; None where it does not wait."""
        with self._changed:
            order = self._queue.order() if job.state == State.queued else []
        return order.index(job) if job in order else None

    def cancel(self, job: Job, problem: Problem | None = None) -> None:
        """Take a job out of the queue, or ask its computation to stop at its next step."""
        problem = problem or Problem("job-cancelled", "the job was cancelled by its client")
        with self._changed:
            waited = self._queue.remove(job)
            job.stop = problem
        if waited:
            state = State.cancelled if problem.kind == "job-cancelled" else State.failed
            self._finish(job, state, problem=problem)

    def forget(self, job: Job) -> None:
        """Cancel a job that is not finished, and give back all that is kept for it."""
        with self._changed:
            self._jobs.pop(job.id, None)
        self.cancel(job)
        with self._changed:
            result, job.result = job.result, None
        if result is not None:
            result.discard()

    # The passing of time

    def sweep(self) -> None:
        """Forget results whose life is over and jobs that nobody asks about; called every second or so."""
        now, monotonic = time.time(), time.monotonic()
        with self._changed:
            jobs = list(self._jobs.values())
        for job in jobs:
            if job.finished is not None and now - job.finished > self.config.result_seconds:
                self.forget(job)
                continue
            is_left = not job.is_watched and monotonic - job.last_asked > self.config.abandon_seconds
            if job.finished is None and is_left:
                self.cancel(job, Problem("job-cancelled", "nobody asked about the job any more"))

    def make_room(self, nbytes: int) -> None:
        """Forget the oldest results until so many more bytes can be kept, as far as there are any."""
        if nbytes > self.storage.limit:  # would not fit even then
            return
        with self._changed:
            finished = sorted((j for j in self._jobs.values() if j.finished is not None), key=lambda j: j.finished or 0)
        for job in finished:
            if self.storage.used + nbytes <= self.storage.limit:
                return
            if not job.is_watched:
                self.forget(job)

    def drain(self) -> None:
        """Take no more work and hand back what waits; what runs may finish."""
        with self._changed:
            if not self._draining:
                self._stop_at = time.monotonic() + self.config.shutdown_seconds
            self._draining = True
            waiting = self._queue.order()
            self._changed.notify_all()
        for job in waiting:
            self.cancel(job, retry_later("shutting-down", "the server stopped before this job began", 10))

    def stop_running(self) -> None:
        """Ask what still runs to stop."""
        with self._changed:
            running = list(self._running)
        for job in running:
            self.cancel(job, retry_later("shutting-down", "the server stopped before this job was done", 10))

    @property
    def seconds_to_finish(self) -> float:
        """How long what runs may go on, once the server is stopping."""
        return max(0.0, self._stop_at - time.monotonic())

    @property
    def is_draining(self) -> bool:
        """Whether the server is stopping."""
        return self._draining

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running

    def is_awaited(self, seconds: float) -> bool:
        """Whether clients that asked within so many seconds, or since the end of their job, have not got it yet."""
        since = time.monotonic() - seconds
        with self._changed:
            return any(j.is_final and not j.is_received and j.last_asked > since for j in self._jobs.values())

    def gauges(self) -> dict[str, float]:
        """Numbers that go up and down, for /metrics."""
        with self._changed:
            return {
                "enlcn_queue_length": len(self._queue) + sum(self._reserved.values()),
                "enlcn_jobs_running": len(self._running),
                "enlcn_jobs_kept": len(self._jobs),
                "enlcn_stored_bytes": self.storage.used,
            }


def no_such_job() -> Problem:
    """The problem of asking about a job that is not known, or no more."""
    return Problem("no-such-job", "there is no such job, or its result has expired")


class Place:
    """A reserved place in the queue."""

    def __init__(self, studio: Studio, client: str):
        self._studio, self._client = studio, client
        self._used = False

    def submit(self, work: Work, facts: dict[str, Any]) -> Job:
        """Turn the place into a job."""
        self._used = True
        return self._studio._submit(self._client, work, facts)

    def give_back(self) -> None:
        """Leave the queue where no job came of it."""
        if not self._used:
            self._used = True
            with self._studio._changed:
                self._studio._unreserve(self._client)
