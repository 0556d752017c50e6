"""What every command shares: consoles, verbosity, progress bars, and turning errors into exit codes."""

import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from rich.console import Console
from rich.logging import RichHandler
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from enlcn import interruption
from enlcn.errors import UserError, printable

# Without emoji: they would take the place of names such as a:car:.png.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
log = logging.getLogger("enlcn")
BEFORE_COMMANDS = ("--quiet", "-q", "--verbose", "-v")  # the options of the program itself


class _LineHandler(logging.Handler):
    """Each message as one line, however long: what reads log files goes by lines."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(self.format(record), markup=False)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Escape what names in a message may hold; every message is shown."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


def set_verbosity(level: int) -> None:
    """-1 quiet (errors only), 0 normal, 1 verbose (debug messages)."""
    out.quiet = level < 0
    handler: logging.Handler = RichHandler(console=err, show_time=False, show_path=False, show_level=level > 0)
    if not err.is_terminal:
        handler = _LineHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s" if level > 0 else "%(message)s"))
    handler.addFilter(_in_one_line)
    log.handlers = [handler]
    log.setLevel({-1: logging.ERROR, 0: logging.INFO}.get(level, logging.DEBUG))


def say(text: str, *, to: Console | None = None) -> None:
    """Print one line as it is: names and paths may hold what looks like markup. Silent with -q."""
    if not out.quiet:
        (to or out).print(printable(text), markup=False)


def show_card(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """What is known of one thing: labels and values, folded to a terminal's width, a line each where piped."""
    facts = list(facts)
    if not out.is_terminal:  # a table would cut what has no blanks, such as paths
        width = max(len(label) for label, _ in facts)
        for line in (title, *(f"{label:{width}}  {value}" for label, value in facts)):
            say(line)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column()
    table.add_column(overflow="fold")
    for label, value in facts:
        table.add_row(label, escape(value))
    say(title)
    out.print(table)


class _Bar(Progress):
    """A bar through which a dropped interruption is obeyed after all."""

    def update(self, task_id: TaskID, **changes: Any) -> None:
        interruption.obey()
        super().update(task_id, **changes)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        interruption.obey()
        super().advance(task_id, advance)


def progress_bar() -> Progress:
    """A bar on standard error, gone when done; silent with -q or where nobody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return _Bar(*columns, console=err, transient=True, disable=out.quiet or not err.is_terminal)


def run_guarded(command: Callable[[], object]) -> None:
    """Run a program and exit; bad input and wrong usage become one line on standard error and exit code 2.

    Args:
        command: does it all, and returns an exit code where it is not 0.
    """
    # A polite request to stop cleans up as Ctrl-C does: temporary files go.
    interruption.install()
    try:
        exit_code = command()
    except UserError as error:
        _fail(str(error))
    except MemoryError:
        log.debug("where it happened", exc_info=True)
        _fail("out of memory; close other programs, or take less at a time")
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:  # a file or address that nobody looked at before
        log.debug("where it happened", exc_info=True)
        where = f"{error.filename}: " if error.filename is not None else ""
        _fail(where + (error.strerror or (str(error).splitlines() or [type(error).__name__])[0]))
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(interruption.EXIT_CODE)
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
    option = getattr(error, "option_name", None)
    if option in BEFORE_COMMANDS and message.startswith("No such option") and getattr(error.ctx, "parent", None):
        program = error.ctx.find_root().command_path
        return f"{option} goes before the command: `{program} {option}{path.removeprefix(program)} …`"
    given = _refused_value(error)
    if given is not None and repr(given) not in message:
        message = message.replace("Invalid value for", f"Invalid value {given!r} for", 1)
    see = " See" if message.endswith("?") else "; see"
    return f"{message[:1].lower()}{message[1:]}{see} `{path} --help`"


def _refused_value(error: BaseException) -> object:
    """What was given for an option, where pydantic refused it, whose words leave it out; None else."""
    errors = getattr(error.__cause__ or error.__context__, "errors", None)
    return errors()[0].get("input") if callable(errors) else None


def escape(text: str) -> str:
    """Text that rich prints in one line as it is, brackets included."""
    return printable(text).replace("[", "\\[")
