"""Which inputs are videos, and what their results are called. Nothing is opened yet; no PyAV here."""

import glob
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from enlcn.data.image_formats import SUFFIXES as PICTURE_SUFFIXES
from enlcn.errors import UserError
from enlcn.upscaling.find_files import find_files
from enlcn.upscaling.jobs import STREAM, Naming, is_file_name, mirrored, refuse_bad_names
from enlcn.upscaling.left_out import OTHER_SUFFIXES, LeftOut

log = logging.getLogger(__name__)

# What can be written, by suffix; a video in another container becomes Matroska, which holds nearly every stream.
CONTAINERS = {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
VIDEO_SUFFIXES = (
    *CONTAINERS,
    *(".avi", ".mpg", ".mpeg", ".ts", ".m2ts", ".mts", ".wmv", ".flv", ".3gp", ".ogv", ".vob", ".mxf"),
)


@dataclass(frozen=True)
class VideoJob:
    """One video to upscale, and where to."""

    source: Path
    target: Path


def split_videos(
    inputs: list[str], naming: Naming, left_out: LeftOut | None = None
) -> tuple[list[str], list[VideoJob]]:
    """The inputs that hold pictures, for `plan_jobs`, and the videos among all inputs with the names of their results.

    A folder or glob with videos and no picture is no input for pictures; one with neither is, and its absence of
    pictures will be told there. What folders and globs hold besides is added to `left_out`.
    """
    refuse_bad_names(inputs, naming)
    aside = LeftOut() if left_out is None else left_out

    def leave_out(error: OSError) -> None:
        if Path(error.filename) in map(Path, inputs):
            raise UserError(f"{error.filename}: cannot be read ({error.strerror})")
        log.warning("%s: left out, it cannot be read (%s)", error.filename, error.strerror)
        aside.unreadable.append(str(error.filename))

    pictures: list[str] = []
    videos: list[VideoJob] = []
    for text in inputs:
        path = Path(text)
        if path.is_dir():
            found = _sound(dict(mirrored(path, naming, leave_out, aside.add_link)), aside)
        elif not path.exists() and glob.has_magic(text):
            found = _sound({file: _folder(file, naming) for file in find_files(text, aside.add_link)}, aside)
        else:
            found = {path: _folder(path, naming)}
        jobs = [VideoJob(file, folder) for file, folder in found.items() if is_video(file)]
        videos += jobs
        if not jobs or any(file.suffix.lower() in PICTURE_SUFFIXES for file in found):
            pictures.append(text)
    return pictures, _named(list(dict.fromkeys(videos)), naming, alone=not pictures)


def _sound(found: dict[Path, Path], aside: LeftOut) -> dict[Path, Path]:
    """The pictures and videos among files that were found; what else there is goes aside."""
    known = {file: to for file, to in found.items() if is_video(file) or file.suffix.lower() in PICTURE_SUFFIXES}
    aside.broken = list(dict.fromkeys([*aside.broken, *(file for file in known if not file.exists())]))
    aside.add_others(file for file in found if file.is_file())
    return {file: to for file, to in known.items() if file.is_file()}


def is_of_media(path: Path) -> bool:
    """Whether a file is called like a picture or video, be it of a kind that is not read here."""
    return is_video(path) or path.suffix.lower() in (*PICTURE_SUFFIXES, *OTHER_SUFFIXES)


def is_video(path: Path) -> bool:
    """Whether a file is taken for a video, by its name."""
    return path.suffix.lower() in VIDEO_SUFFIXES


def container_for(path: Path) -> str:
    """The container in which a file of this name is written, by FFmpeg's name."""
    container = CONTAINERS.get(path.suffix.lower())
    if container is None:
        raise UserError(f"{path}: cannot write video into '{path.suffix}' files; choose from {', '.join(CONTAINERS)}")
    return container


def _is_file_name(output: str | None) -> bool:
    """As pictures have it: what ends like .gif is a file, too, and refused later."""
    return output is not None and is_file_name(output)


def _folder(source: Path, naming: Naming) -> Path:
    return source.parent if naming.output is None or _is_file_name(naming.output) else Path(naming.output)


def _named(jobs: list[VideoJob], naming: Naming, *, alone: bool) -> list[VideoJob]:
    """Jobs whose target is still a folder, with file names that differ from each other and from their sources."""
    if not jobs:
        return []
    if naming.output == STREAM:
        raise UserError(f"{jobs[0].source}: a video cannot go to standard output; give the output a file name")
    if _is_file_name(naming.output):
        assert naming.output is not None
        if len(jobs) > 1 or not alone:
            raise UserError(f"{naming.output}: several inputs cannot go into one file; name a folder")
        container_for(Path(naming.output))
        jobs = [replace(jobs[0], target=Path(naming.output))]
    else:
        jobs = [replace(job, target=job.target / _name(job, naming)) for job in jobs]
    by_target: dict[Path, list[VideoJob]] = {}
    for job in jobs:
        by_target.setdefault(job.target.resolve(), []).append(job)
    jobs = [_with_extension(job) if len(by_target[job.target.resolve()]) > 1 else job for job in jobs]
    results = {job.target.resolve() for job in jobs}
    for job in jobs:
        if job.target.resolve() == job.source.resolve():
            raise UserError(f"{job.source}: its own result would replace it; choose another --output or --suffix")
    return [job for job in jobs if len(jobs) == 1 or job.source.resolve() not in results]


def _name(job: VideoJob, naming: Naming) -> str:
    suffix = naming.suffix
    if suffix is None:
        suffix = f"_{naming.label}" if job.target.resolve() == job.source.parent.resolve() else ""
    extension = job.source.suffix.lower()
    return f"{job.source.stem}{suffix}{extension if extension in CONTAINERS else '.mkv'}"


def _with_extension(job: VideoJob) -> VideoJob:
    """a.avi and a.mkv would both become a.mkv: the input's extension goes into the name."""
    kind = job.source.suffix.lower().lstrip(".")
    return replace(job, target=job.target.with_stem(f"{job.target.stem}_{kind}"))
