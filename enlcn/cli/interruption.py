"""Ctrl-C and SIGTERM end a command, even where the exception that says so is dropped.

What a signal raises while a C library calls back into Python, as libvips does to log, is printed and forgotten. So the
request is noted, too, and obeyed where the command next tells its progress.
"""

import signal

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


def _stop(number: int, frame: object) -> None:
    global _requested
    _requested = True
    raise KeyboardInterrupt
