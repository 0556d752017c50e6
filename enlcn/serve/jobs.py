"""One piece of work on its way through the queue: what it is, how far it is, who watches it."""

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from enlcn.serve.problems import Problem
from enlcn.serve.storage import Blob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from enlcn.serve.toolbox import Toolbox


class State(StrEnum):
    """Where a job is."""

    queued = "queued"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"


FINAL = (State.done, State.failed, State.cancelled)


class StoppedError(Exception):
    """Raised inside a computation that is no longer wanted; `problem` says why."""

    def __init__(self, problem: Problem):
        super().__init__(problem.detail)
        self.problem = problem


class Work(Protocol):
    """What a job does on a device."""

    cost: float

    def __call__(self, toolbox: "Toolbox", watch: "Watch") -> "Result":
        """Compute, telling `watch` how far it is; StoppedError passes through."""

    def discard(self) -> None:
        """Give back what was kept for the work."""


@dataclass
class Result:
    """What a job leaves.

    Attributes:
        files: bytes to be fetched, each with its media type.
        facts: what was done, as plain data.
    """

    files: dict[str, tuple[Blob, str]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def discard(self) -> None:
        """Give the room back."""
        for blob, _ in self.files.values():
            blob.close()


class Job:
    """A piece of work; its fields are changed by its owner, the studio, and by the worker that runs it."""

    def __init__(self, client: str, work: Work, facts: dict[str, Any]):
        self.id = secrets.token_urlsafe(16)  # who knows it may see and cancel the job
        self.client = client
        self.work = work
        self.facts = facts
        self.state = State.queued
        self.fraction = 0.0
        self.step = "waiting"
        self.problem: Problem | None = None
        self.result: Result | None = None
        self.created = time.time()
        self.started: float | None = None
        self.finished: float | None = None
        self.last_asked = time.monotonic()
        self.is_received = False  # its client knows the end, or has asked for the result
        self.stop: Problem | None = None
        self._watchers: dict[asyncio.Event, tuple[asyncio.AbstractEventLoop, bool]] = {}
        self._lock = threading.Lock()

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in FINAL

    @property
    def is_watched(self) -> bool:
        """Whether someone waits for it right now."""
        return bool(self._watchers)

    def touch(self) -> None:
        """Someone asked about it."""
        self.last_asked = time.monotonic()

    def changed(self) -> None:
        """Wake everyone whom it concerns; from any thread."""
        final = self.is_final
        with self._lock:
            watchers = [(event, loop) for event, (loop, only_end) in self._watchers.items() if final or not only_end]
        for event, loop in watchers:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    @contextmanager
    def watched(self, *, only_end: bool = False) -> "Iterator[asyncio.Event]":
        """An event of the running loop that is set on every change, or only at the end."""
        event = asyncio.Event()
        with self._lock:
            self._watchers[event] = (asyncio.get_running_loop(), only_end)
        try:
            yield event
        finally:
            with self._lock:
                del self._watchers[event]
            self.touch()

    async def until_final(self) -> None:
        """Wait for its end."""
        with self.watched(only_end=True) as event:
            while not self.is_final:
                await event.wait()
                event.clear()

    async def changes(self, heartbeat: float) -> AsyncIterator[bool]:
        """Yield True at once and on every change up to its end, False where nothing happens for `heartbeat` s."""
        with self.watched() as event:
            while True:
                event.clear()
                final = self.is_final
                yield True
                if final:
                    return
                while not event.is_set():
                    try:
                        await asyncio.wait_for(event.wait(), heartbeat)
                    except TimeoutError:
                        yield False


class Watch:
    """What a computation is given: tells it to stop, is told how far it is."""

    def __init__(self, job: Job, seconds: float, clock: Callable[[], float] = time.monotonic):
        self._job, self._clock = job, clock
        self._deadline = clock() + seconds
        self._seconds = seconds

    def check(self) -> None:
        """Raise StoppedError where the result is no longer wanted or the time is over."""
        if self._job.stop is not None:
            raise StoppedError(self._job.stop)
        if self._clock() > self._deadline:
            raise StoppedError(Problem("too-slow", f"the job took more than {self._seconds:g} s, the limit of one job"))

    def report(self, fraction: float, step: str) -> None:
        """Say how far it is, 0 to 1, never backwards; also a `check`."""
        self.check()
        self._job.fraction = min(1.0, max(self._job.fraction, fraction))
        self._job.step = step
        self._job.changed()
