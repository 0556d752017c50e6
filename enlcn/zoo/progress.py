"""A bar for downloads, on standard error, where someone watches and nothing asked for silence."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from enlcn.zoo.download import Progress


@contextmanager
def shown(progress: Progress | None, label: str) -> Iterator[Progress | None]:
    """`progress` itself, or that of a bar while the block runs."""
    quiet = logging.getLogger("enlcn").getEffectiveLevel() >= logging.ERROR  # what -q sets
    if progress is not None or quiet or not sys.stderr.isatty():
        yield progress
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        name = label.partition("#")[0].removesuffix("/manifest.json").rpartition("/")[2]
        task = bar.add_task(escape(name or label), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
