"""The file of `enlcn upscale --report`: never in the place of a picture, and written again where a run goes on."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from enlcn.errors import UserError, printable
from enlcn.files import atomic_write, check_writable

STDOUT = Path("-")


def check_report(path: Path, jobs: Iterable[Any], *, overwrite: bool, skip_existing: bool) -> None:
    """An error where a report at `path` would replace anything but an earlier report; call it before the work.

    Args:
        path: where the report is to go.
        jobs: pictures and videos, with their `source` and `target`.
        overwrite: an existing file that is neither input nor output may be replaced.
        skip_existing: so may an earlier report.
    """
    from enlcn.video.jobs import is_of_media

    if path == STDOUT:
        return
    place = path.resolve()
    for job in jobs:
        for other, what in ((job.source, "an input"), (job.target, "an output")):
            if other is not None and Path(other).resolve() == place:
                raise UserError(f"--report {path}: is {what} of this run; name another file, such as report.json")
    if is_of_media(path):
        raise UserError(f"--report {path}: ends like a picture or video; name another file, such as report.json")
    if skip_existing and path.is_file() and not _is_report(path):
        raise UserError(f"--report {path}: exists, and is no earlier report; name another file")
    check_writable(path, overwrite=overwrite or skip_existing)


def write_report(path: Path, outcomes: list[Any]) -> None:
    """What became of every picture and video, as a JSON list; names stand there as they are printed."""
    text = json.dumps([_printable(outcome.as_dict()) for outcome in outcomes], indent=2) + "\n"
    if path == STDOUT:
        typer.echo(text, nl=False)
        return
    with atomic_write(path, overwrite=True) as temporary:  # whether it may be replaced was asked before the work
        temporary.write_text(text)


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(each) for each in value]
    return printable(value) if isinstance(value, str) else value


def _is_report(path: Path) -> bool:
    try:
        rows = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(rows, list) and all(isinstance(row, dict) and "status" in row for row in rows)
