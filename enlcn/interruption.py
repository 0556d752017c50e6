"""Ctrl-C and SIGTERM end the program, even where the exception that says so would be dropped or do harm.

What a signal raises while a C library calls back into Python, as libvips does to log, is printed and forgotten. So the
request is noted, too, and obeyed where the command next tells its progress. What it raises in the middle of an import
may leave a C++ library half set up, which then aborts: there the program ends at once, since nothing has begun.
"""

import os
import signal
from types import FrameType

EXIT_CODE = 130
_IMPORTING = "<frozen importlib._bootstrap>"
_requested = False


def install() -> None:
    """Take both signals; one that is ignored, as Ctrl-C in a shell's background jobs, stays so."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def obey() -> None:
    """Raise KeyboardInterrupt if one was asked for and dropped."""
    if _requested:
        raise KeyboardInterrupt


def _stop(number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = True
    if _is_importing(frame):
        os.write(2, b"interrupted\n")
        os._exit(EXIT_CODE)
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False
