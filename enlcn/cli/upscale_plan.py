"""What `enlcn upscale` is to do, planned without torch; and `--dry-run`, which tells it instead of doing it."""

from dataclasses import dataclass
from typing import Any

import typer

from enlcn.cli import console, video_options
from enlcn.errors import UserError
from enlcn.files import refuse_to_overwrite


@dataclass(frozen=True)
class Work:
    """Pictures and videos to upscale, as `Job` and `VideoJob`, and what the inputs hold besides."""

    pictures: list[Any]
    videos: list[Any]
    left_out: Any

    @property
    def count(self) -> int:
        """How many there are in all."""
        return len(self.pictures) + len(self.videos)

    def refuse_at_once(self, options: Any) -> None:
        """An error for what would make every picture fail: it need not wait for torch."""
        scale = options.target.scale
        if self.pictures and scale is not None and (problem := scale_problem(scale, options.model)):
            raise UserError(problem)
        if self.count == 1 and not options.skip_existing:
            for job in self.pictures:
                if job.target is not None:
                    refuse_to_overwrite(job.target, options.overwrite, can_skip=True)


def plan_work(inputs: list[str], naming: Any) -> Work:
    """The pictures and videos among files, folders, globs and "-", with the names of their results."""
    from enlcn.upscaling.jobs import plan_jobs
    from enlcn.upscaling.left_out import LeftOut
    from enlcn.video.jobs import split_videos

    left_out = LeftOut()
    pictures, videos = split_videos(inputs, naming, left_out)
    return Work(plan_jobs(pictures, naming, left_out.told()) if pictures else [], videos, left_out)


def say_plan(work: Work, options: Any, video: Any) -> None:
    """What would become of each, and what would be in the way, which makes the exit code 1."""
    from enlcn.upscaling.devices import resolve_device

    resolve_device(options.engine.device)
    problems = video_options.say_video_plan(work.videos, options.target, video, options.skip_existing)
    problems += _say_pictures(work.pictures, options)
    if say_left_out(work.left_out) or problems:
        raise typer.Exit(1)


def say_left_out(left_out: Any) -> bool:
    """A line for files of other kinds, and one for what could not be read, with errors alone, too; whether any is."""
    if others := left_out.told_others():
        console.say(f"left out: {others}", to=console.err)
    if unread := left_out.told_unread():
        console.err.print(f"[bold red]not read:[/] {console.escape(unread)}")
    return bool(unread)


def _say_pictures(jobs: list[Any], options: Any) -> int:
    """What would be done; returns how many of them cannot. An error where the model is not there at all."""
    from enlcn.upscaling.large import alpha_problem, seen_size

    problems = 0
    for job in jobs:
        size, problem = seen_size(job, options.max_pixels)
        sizes = ""
        if size is not None:
            out_height, out_width = options.target.size(size[1], size[0])
            sizes = f" ({size[0]}x{size[1]} -> {out_width}x{out_height})"
            problem = problem or scale_problem(options.target.factor(size[1], size[0]), options.model)
            if options.background is None and not problem:
                problem = alpha_problem(job)
        note = ""
        if job.target is not None and job.target.exists():
            note = " (exists: skipped)" if options.skip_existing else " (exists: replaced)"
            if not (options.skip_existing or options.overwrite):
                note, problem = "", problem or "exists: pass --overwrite or --skip-existing"
        problems += bool(problem)
        told = f" ({problem})" if problem else ""
        console.say(f"{job.source or '-'} -> {job.target or '-'}{sizes}{told}{note}")
    return problems


def scale_problem(factor: float, model: str | None) -> str:
    """Why a picture cannot grow so much; "" where it can. Weights that come from elsewhere are not fetched for it."""
    from enlcn.zoo import UNTRAINED_PREFIX, is_path, is_remote, locate, refuse_unknown, resolve, trained_scale

    if model is not None and (is_remote(model) or is_path(model)):
        return ""
    try:
        name = resolve(model, trained_scale(factor, model))
    except UserError as error:
        return str(error)
    if not name.startswith(UNTRAINED_PREFIX):
        refuse_unknown(locate(name))
    return ""
