"""Which files become which: inputs expanded, output names made, nothing written yet."""

import glob
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from enlcn.data.image_formats import FORMATS, SUFFIXES, format_for_path
from enlcn.errors import UserError
from enlcn.upscaling.find_files import find_files

STREAM = "-"
# Photos gain nothing from a second lossy step; scans in TIFF keep what only TIFF holds.
_AUTO_FORMAT = {"tiff": "tiff"}
_PREFERRED_SUFFIX = {"jpeg": ".jpg", "tiff": ".tif"}
# Three or four letters end a file's name; with digits only these do: folders are called run.v2, photos.2x, out.2024.
_OTHER_ENDINGS = {
    *(".jp2", ".j2k", ".j2c", ".jpg2", ".cr2", ".cr3", ".rw2"),
    *(".mp4", ".m4v", ".m2v", ".m2ts", ".ts", ".3gp", ".3g2", ".h264", ".h265", ".y4m", ".av1"),
}
_LONGEST_TOLD = 80  # characters of each of the three paths in one error
_FORMAT_OF = {suffix: key for key, form in FORMATS.items() for suffix in form.suffixes}


@dataclass(frozen=True)
class Job:
    """One picture to upscale: a path, or None for standard input; where to, or None for standard output."""

    source: Path | None
    target: Path | None
    format: str

    @property
    def names(self) -> tuple[str, str]:
        """Source and target as they are told to users: "-" for standard input and output."""
        return str(self.source or STREAM), str(self.target or STREAM)


@dataclass(frozen=True)
class Naming:
    """How outputs are called.

    Attributes:
        output: a file, a folder, "-" for standard output, or None for beside the input.
        format: "png", "jpeg", "webp", "avif", "tiff", or None: TIFF stays TIFF, everything else becomes PNG.
        suffix: put before the extension; None puts the scale beside the input and nothing in another folder.
        label: the scale as it stands in names, such as "x4".
        apart: every input folder gets a folder of its own name in `output`, as several together do.
    """

    output: str | None
    format: str | None
    suffix: str | None
    label: str
    apart: bool = False


def plan_jobs(inputs: list[str], naming: Naming, left_out: str = "") -> list[Job]:
    """Every picture among files, folders (recursively), globs and "-", with the name of its result.

    A picture named twice is done once; one that is itself a result of this plan is no input. Where there is none at
    all, the error tells what was left out.
    """
    if naming.output is not None and naming.output != STREAM and is_file_name(naming.output):
        _check_file_name(naming)
    jobs = _told_apart(list(dict.fromkeys(job for text in inputs for job in _jobs_of(text, naming))))
    targets = {job.target.resolve() for job in jobs if job.target is not None}
    if len(jobs) > 1:
        jobs = [job for job in jobs if job.source is None or job.source.resolve() not in targets]
    if not jobs:
        beside = f", but {left_out}" if left_out else ""
        raise UserError(f"{', '.join(inputs)}: no pictures found{beside}; known are {', '.join(sorted(SUFFIXES))}")
    if naming.output is not None and len(jobs) > 1 and (naming.output == STREAM or is_file_name(naming.output)):
        raise UserError(f"{naming.output}: {len(jobs)} pictures cannot go into one file; name a folder")
    _refuse_collisions(jobs)
    return jobs


def refuse_bad_names(inputs: list[str], naming: Naming) -> None:
    """An error for names that are empty, as of a script's variable that is not set, and for suffixes with folders."""
    if not all(inputs):
        raise UserError("an input's name is empty; give a file or a folder, or . for this one")
    if naming.output == "":
        raise UserError("--output is empty; give a file or a folder, or . for this one")
    if naming.suffix and re.search(r"[/\\]", naming.suffix):
        raise UserError(f"--suffix is '{naming.suffix}'; it is part of a file's name, without / and \\")


def several_folders(inputs: list[str]) -> bool:
    """Whether more than one folder is among the inputs: files of one name in them must not meet in the output."""
    return len({Path(text).resolve() for text in inputs if text != STREAM and Path(text).is_dir()}) > 1


def mirrored(
    folder: Path,
    naming: Naming,
    on_error: Callable[[OSError], None] | None = None,
    on_link: Callable[[Path], None] | None = None,
) -> list[tuple[Path, Path]]:
    """Every file below a folder with the folder of its result, sorted; broken links, too.

    What is hidden is left out, and so are results of earlier runs where they go into the folder itself.

    Args:
        folder: an input.
        naming: where results go.
        on_error: hears of folders that cannot be read.
        on_link: hears of links to folders, which are not followed: they may lead in circles, or anywhere.
    """
    name = folder.resolve().name
    named = folder if folder.name not in ("", "..") else folder.resolve()  # "." has no folder beside it
    results = Path(naming.output) if naming.output else named.parent / f"{name}_{naming.label}"
    base = results / name if naming.output and naming.apart else results
    inside = results.resolve() != folder.resolve() and results.resolve().is_relative_to(folder.resolve())
    found = []
    for place, folders, names in os.walk(folder, onerror=on_error):
        folders[:] = [each for each in folders if not each.startswith(".")]
        for link in (Path(place, each) for each in sorted(folders)):
            if on_link is not None and link.is_symlink():
                on_link(link)
        found += [Path(place) / each for each in names if not each.startswith(".")]
    return [
        (file, base / file.relative_to(folder).parent)
        for file in sorted(found)
        if not (inside and file.resolve().is_relative_to(results.resolve()))
    ]


def why_absent(path: Path) -> str:
    """Why there is nothing at an input's path; "" where there is."""
    if path.exists():
        return ""
    return "no picture or video matches" if glob.has_magic(str(path)) else "no such file"


def _jobs_of(text: str, naming: Naming) -> list[Job]:
    if text == STREAM:
        return [_stdin_job(naming)]
    path = Path(text)
    if path.is_dir():
        if naming.output is not None and is_file_name(naming.output):
            raise UserError(f"{naming.output}: is a file name, but {path} is a folder; name a folder")
        found = mirrored(path, naming)
        return [_job(file, to, naming) for file, to in found if file.suffix.lower() in SUFFIXES and file.is_file()]
    if not path.exists() and glob.has_magic(text):
        files = [file for file in find_files(text) if file.is_file() and file.suffix.lower() in SUFFIXES]
        if files:
            return [_job(file, _folder(file, naming), naming) for file in files]
    return [_job(path, _folder(path, naming), naming)]  # where there is no such file, its job will say so


def _job(source: Path, folder: Path, naming: Naming) -> Job:
    if naming.output == STREAM:
        return Job(source, None, naming.format or "png")
    if naming.output is not None and is_file_name(naming.output):
        target = Path(naming.output)
        return Job(source, target, naming.format or format_for_path(target))
    format = naming.format or _AUTO_FORMAT.get(_FORMAT_OF.get(source.suffix.lower(), ""), "png")
    suffix = naming.suffix
    if suffix is None:
        suffix = f"_{naming.label}" if folder.resolve() == source.parent.resolve() else ""
    return Job(source, folder / f"{source.stem}{suffix}{_extension(format)}", format)


def _stdin_job(naming: Naming) -> Job:
    if naming.output is None or naming.output == STREAM:
        return Job(None, None, naming.format or "png")
    if not is_file_name(naming.output):
        raise UserError(f"{naming.output}: standard input has no name; give the output a file name")
    target = Path(naming.output)
    return Job(None, target, naming.format or format_for_path(target))


def _folder(source: Path, naming: Naming) -> Path:
    if naming.output is None or naming.output == STREAM or is_file_name(naming.output):
        return source.parent
    return Path(naming.output)


def is_file_name(output: str) -> bool:
    """Whether an output that may not exist yet is meant as a file: by an extension such as .png, .gif or .mp4."""
    if output.endswith(("/", "\\")) or Path(output).is_dir():
        return False
    suffix = Path(output).suffix
    return suffix.lower() in _OTHER_ENDINGS or re.fullmatch(r"\.[A-Za-z]{3,4}", suffix) is not None


def _check_file_name(naming: Naming) -> None:
    assert naming.output is not None
    format = format_for_path(naming.output)
    if naming.format is not None and naming.format != format:
        raise UserError(f"{naming.output}: its name says {format}, --format says {naming.format}; change one of them")


def _extension(format: str) -> str:
    return _PREFERRED_SUFFIX.get(format, f".{format}")


def _told_apart(jobs: list[Job]) -> list[Job]:
    """Jobs whose results would share a name (a.jpg and a.png) get their inputs' extension into it (a_jpg, a_png)."""
    sharing: dict[Path, int] = {}
    for job in jobs:
        if job.target is not None:
            sharing[job.target] = sharing.get(job.target, 0) + 1
    return [_with_extension(job) if job.target and sharing[job.target] > 1 else job for job in jobs]


def _refuse_collisions(jobs: list[Job]) -> None:
    seen: dict[Path, Path | None] = {}
    for job in jobs:
        if job.target is None:
            continue
        target = job.target.resolve()
        if job.source is not None and target == job.source.resolve():
            raise UserError(f"{job.source}: its own result would replace it; choose another --output or --suffix")
        if target in seen:
            first, second = (_shortened(each) for each in (seen[target], job.source))
            raise UserError(f"{_shortened(job.target)}: {first} and {second} would both go there; rename one of them")
        seen[target] = job.source


def _shortened(path: Path | None) -> str:
    """A path of which the middle is left out where it is long."""
    text = str(path or STREAM)
    return text if len(text) <= _LONGEST_TOLD else f"{text[: _LONGEST_TOLD // 3]}…{text[-_LONGEST_TOLD * 2 // 3 :]}"


def _with_extension(job: Job) -> Job:
    assert job.target is not None
    kind = job.source.suffix.lower().lstrip(".") if job.source is not None else "stdin"
    return replace(job, target=job.target.with_stem(f"{job.target.stem}_{kind}"))


def check_format(name: str | None) -> str | None:
    """A format by the name users give it, or an error that lists them."""
    if name is None or name == "auto":
        return None
    format = {"jpg": "jpeg", "tif": "tiff"}.get(name.lower(), name.lower())
    if format not in FORMATS or not FORMATS[format].writable:
        writable = ", ".join(key for key, known in FORMATS.items() if known.writable)
        raise UserError(f"format is '{name}'; choose from auto, {writable}")
    return format
