"""Which pictures become which files, by URL; nothing is read yet."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from enlcn.cluster.storage import absolute, files_under, join, open_storage, told_in_one_line
from enlcn.data.image_formats import FORMATS, SUFFIXES
from enlcn.errors import UserError
from enlcn.upscaling.left_out import LeftOut

log = logging.getLogger(__name__)

_EXTENSION = {"jpeg": ".jpg", "tiff": ".tif"}
_FORMAT_OF = {suffix: key for key, form in FORMATS.items() for suffix in form.suffixes}


@dataclass(frozen=True)
class Task:
    """One picture: where it lies, where its result goes, in which format."""

    source: str
    target: str
    format: str


def plan_cluster(inputs: list[str], out: str, *, format: str | None = None, suffix: str = "") -> list[Task]:
    """Every picture among files, folders (with all below) and globs, each with its name under `out`.

    Args:
        inputs: URLs or paths.
        out: URL or path of a folder.
        format: of results; None keeps TIFF and makes PNG of all else, as `enlcn upscale` does.
        suffix: put before the extension.
    """
    out = absolute(out)
    out_system, out_path = open_storage(out)
    if "memory" in out_system.protocol or any("memory" in open_storage(text)[0].protocol for text in inputs):
        raise UserError("memory:// lies within one process, where no worker can see it; name a folder or a bucket")
    tasks: list[Task] = []
    left_out = LeftOut()
    for text in inputs:
        with told_in_one_line(text):
            tasks += _tasks_of(text, out, format, suffix, left_out)
    if others := left_out.told_others():
        log.warning("left out: %s", others)
    found = bool(tasks)
    tasks = list(dict.fromkeys(task for task in tasks if not _is_below(task.source, out_system, out_path)))
    if found and not tasks:
        raise UserError(f"{out}: all inputs lie in the folder of the results; choose another --out")
    if not tasks:
        raise UserError(f"{', '.join(inputs)}: no pictures found; known are {', '.join(sorted(SUFFIXES))}")
    return _told_apart(tasks)


def _tasks_of(text: str, out: str, format: str | None, suffix: str, left_out: LeftOut) -> list[Task]:
    filesystem, path = open_storage(text)
    if any(mark in text for mark in "*?[") and not filesystem.exists(path):
        names = [str(name) for name in filesystem.glob(path)]
        base = path[: min(path.index(mark) for mark in "*?[" if mark in path)].rpartition("/")[0]
    elif filesystem.isdir(path):
        names, base = list(files_under(text)), path.rstrip("/")
    elif filesystem.exists(path):
        names, base = [path], path.rpartition("/")[0]
    else:
        raise UserError(f"{text}: no such file or folder")
    tasks = []
    for name in sorted(names):
        relative = PurePosixPath(name[len(base) :].lstrip("/"))
        hidden = any(part.startswith(".") for part in relative.parts)
        if relative.suffix.lower() in SUFFIXES and not hidden:
            chosen = format or ("tiff" if _FORMAT_OF[relative.suffix.lower()] == "tiff" else "png")
            result = relative.with_name(f"{relative.stem}{suffix}{_EXTENSION.get(chosen, f'.{chosen}')}")
            tasks.append(Task(str(filesystem.unstrip_protocol(name)), join(out, str(result)), chosen))
        elif not hidden:
            left_out.add_others([Path(name)])
    return tasks


def _is_below(source: str, out_system: object, out_path: str) -> bool:
    """Whether an input lies in the folder of the results: they are no inputs."""
    filesystem, path = open_storage(source)
    return type(filesystem) is type(out_system) and path.startswith(out_path.rstrip("/") + "/")


def _told_apart(tasks: list[Task]) -> list[Task]:
    """Results that would share a name (a.jpg and a.png) get their inputs' extension into it (a_jpg, a_png)."""
    sharing: dict[str, int] = {}
    for task in tasks:
        sharing[task.target] = sharing.get(task.target, 0) + 1
    named = [_with_extension(task) if sharing[task.target] > 1 else task for task in tasks]
    seen: dict[str, str] = {}
    for task in named:
        if task.target in seen:
            raise UserError(f"{task.target}: {seen[task.target]} and {task.source} would both go there; rename one")
        seen[task.target] = task.source
    return named


def _with_extension(task: Task) -> Task:
    folder, _, name = task.target.rpartition("/")
    stem, _, extension = name.rpartition(".")
    kind = task.source.rpartition(".")[2].lower()
    return replace(task, target=f"{folder}/{stem}_{kind}.{extension}")
