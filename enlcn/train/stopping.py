"""Being asked to stop: Ctrl-C and SIGTERM let the step finish and the run be saved."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A scope in which the signals are noted instead of obeyed at once; a second one is obeyed."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._note) for number in heeded}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
