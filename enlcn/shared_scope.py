"""Settings that are one for the whole process, changed by threads that know nothing of each other."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class SharedScope(AbstractContextManager[None]):
    """A scope that any number of threads may be in at once: the first one in enters it, the last one out leaves it.

    With a scope for each thread, one that leaves would change the setting for those still within, and put back what
    another had set.

    Args:
        scope: makes the context manager that changes the setting and puts it back.
    """

    def __init__(self, scope: Callable[[], AbstractContextManager[object]]):
        self._make = scope
        self._lock = threading.Lock()
        self._inside = 0
        self._entered: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._entered = self._make()
                self._entered.__enter__()
            self._inside += 1

    def __exit__(self, *raised: Any) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._entered is not None:
                self._entered.__exit__(None, None, None)  # what one thread raised is its own affair
                self._entered = None
