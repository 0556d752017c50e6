"""What every command shares: consoles, verbosity, progress bars, and turning errors into exit codes."""

import logging
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from enlcn.errors import UserError

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)
log = logging.getLogger("enlcn")


def set_verbosity(level: int) -> None:
    """-1 quiet (errors only), 0 normal, 1 verbose (debug messages)."""
    out.quiet = level < 0
    log.handlers = [RichHandler(console=err, show_time=False, show_path=False, show_level=level > 0)]
    log.setLevel({-1: logging.ERROR, 0: logging.INFO}.get(level, logging.DEBUG))


def say(text: str, *, to: Console | None = None) -> None:
    """Print a line as it is: names and paths may hold what looks like markup. Silent with -q."""
    if not out.quiet:
        (to or out).print(text, markup=False)


def progress_bar() -> Progress:
    """A bar on standard error, gone when done; silent with -q or where nobody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True, disable=out.quiet or not err.is_terminal)


def run_guarded(command: Callable[[], object]) -> None:
    """Run a program and exit; bad input and wrong usage become one line on standard error and exit code 2.

    Args:
        command: does it all, and returns an exit code where it is not 0.
    """
    # A polite request to stop cleans up as Ctrl-C does: temporary files go.
    signal.signal(signal.SIGTERM, _stop)
    try:
        exit_code = command()
    except UserError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.exit(141)
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(130)
    except Exception as error:
        # By its methods, not its class: Typer's releases bring click's classes from different places.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            sys.exit(2)
        _fail(_usage(error))
    else:
        sys.exit(exit_code if isinstance(exit_code, int) else 0)


def _fail(message: str) -> NoReturn:
    err.print(f"[bold red]error:[/] {escape(message)}")
    sys.exit(2)


def _usage(error: Any) -> str:
    """What is wrong with a command line, in one line, and where to look."""
    message = " ".join(error.format_message().split()).rstrip(".")
    path = error.ctx.command_path if getattr(error, "ctx", None) is not None else "enlcn"
    return f"{message[:1].lower()}{message[1:]}; see `{path} --help`"


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def escape(text: str) -> str:
    """Text that rich prints as it is, brackets included."""
    return text.replace("[", "\\[")
