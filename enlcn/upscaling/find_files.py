"""Files by patterns such as `trip/**/*.png`. Below `**`, links to folders are not followed: some lead in circles."""

import glob
import os
from collections.abc import Callable, Iterator
from itertools import dropwhile
from pathlib import Path

_ANY_DEPTH, _SLASH = "**", os.sep


def find_files(pattern: str, on_link: Callable[[Path], None] | None = None) -> list[Path]:
    """What is no folder and matches a pattern, sorted; hidden files and folders match only patterns that name them.

    Args:
        pattern: as for `glob.glob`, recursively.
        on_link: hears of links to folders that were not followed.
    """
    found = dict.fromkeys(_matches(pattern, on_link or (lambda link: None)))
    return [Path(name) for name in sorted(found) if not Path(name).is_dir()]


def _matches(pattern: str, on_link: Callable[[Path], None]) -> Iterator[str]:
    parts = pattern.split(_SLASH)
    if _ANY_DEPTH not in parts:
        yield from glob.glob(pattern)  # noqa: PTH207 (Path.glob wants a base)
        return
    depth = parts.index(_ANY_DEPTH)
    before = _SLASH.join([*parts[:depth], ""])
    rest = _SLASH.join(dropwhile(lambda part: part == _ANY_DEPTH, parts[depth:])) or "*"
    for base in glob.glob(before) if before else [""]:  # noqa: PTH207
        for place, folders, _ in os.walk(base or os.curdir):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for link in (Path(place, name) for name in folders):
                if link.is_symlink():
                    on_link(link)
            below = "" if base == "" and place == os.curdir else _SLASH.join([place.rstrip(_SLASH), ""])
            yield from _matches(glob.escape(below.removeprefix("" if base else f".{_SLASH}")) + rest, on_link)
