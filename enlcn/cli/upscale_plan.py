"""What `enlcn upscale` is to do, planned without torch; and `--dry-run`, which tells it instead of doing it."""

from dataclasses import dataclass
from typing import Any

import typer

from enlcn.cli import console
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
        """An error for what would make all fail: it need not wait for torch."""
        from enlcn.zoo import refuse_scale

        if options.target.scale is not None:
            refuse_scale(options.target.scale, options.model)
        if self.count == 1 and not options.skip_existing:
            for job in (*self.pictures, *self.videos):
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
    """What would become of each, and what would be in the way, which makes the exit code 1.

    An error where the model or the device is not there.
    """
    from enlcn.upscaling.devices import resolve_device
    from enlcn.zoo import refuse_absent_model

    refuse_absent_model(options.model)
    resolve_device(options.engine.device)
    told = [_video_plan(job, options, video) for job in work.videos]
    told += _picture_plans(work.pictures, options)
    for line, _ in told:
        console.say(line)
    if say_left_out(work.left_out) or any(problem for _, problem in told):
        raise typer.Exit(1)


def say_left_out(left_out: Any) -> bool:
    """A line for files of other kinds, and one for what could not be read, with errors alone, too; whether any is."""
    if others := left_out.told_others():
        console.say(f"left out: {others}", to=console.err)
    if unread := left_out.told_unread():
        console.err.print(f"[bold red]not read:[/] {console.escape(unread)}")
    return bool(unread)


def _picture_plans(jobs: list[Any], options: Any) -> list[tuple[str, str]]:
    """What would become of pictures, and what is in the way of each, or ""."""
    from enlcn.upscaling.batch import Batch

    batch = Batch(options)
    return [_picture_plan(job, batch) for job in jobs]


def _picture_plan(job: Any, batch: Any) -> tuple[str, str]:
    from enlcn.upscaling.foreseen import alpha_problem, scratch_problem, seen_size, writing_problem

    options = batch.options
    size, problem = seen_size(job, options.max_pixels)
    told = ""
    if size is not None:
        out_height, out_width = options.target.size(size[1], size[0])
        told = f"{size[0]}x{size[1]} -> {out_width}x{out_height}"
        problem = problem or _scale_problem(options.target.factor(size[1], size[0]), options.model)
        problem = problem or writing_problem(job, batch, size)
        if options.background is None and not problem:
            problem = alpha_problem(job)
        problem = problem or scratch_problem(job, batch, size)
    return _line(job, told, problem, options)


def _video_plan(job: Any, options: Any, video: Any) -> tuple[str, str]:
    """As `_picture_plan`, of a video."""
    from enlcn.video.encoding import plan_encoding
    from enlcn.video.jobs import container_for
    from enlcn.video.probe import probe

    try:
        facts = probe(job.source)
        size = options.target.size(facts.height, facts.width)
        plan, _ = plan_encoding(video.encode, facts, size, container_for(job.target))
    except UserError as error:
        return _line(job, "", str(error).removeprefix(f"{job.source}: "), options)
    told = f"{facts.width}x{facts.height} -> {plan.width}x{plan.height}, {_frames(video.clip, facts)}, "
    told += f"{plan.encoder} {plan.pixel_format}"
    problem = _scale_problem(options.target.factor(facts.height, facts.width), options.model)
    return _line(job, told, problem, options)


def _frames(clip: Any, facts: Any) -> str:
    """How many pictures of a video will be upscaled, as far as can be told."""
    count = clip.count(facts)
    if count is None:
        return "unknown number of frames"
    is_exact = count == clip.frames or (facts.is_counted and clip.start is None and clip.end is None)
    return f"{'' if is_exact else 'about '}{count} frame{'s' * (count != 1)}"


def _line(job: Any, told: str, problem: str, options: Any) -> tuple[str, str]:
    """The line of a picture or video, and what is in the way of it: a result that is there already, too."""
    note = ""
    if job.target is not None and job.target.exists():
        note = " (exists: skipped)" if options.skip_existing else " (exists: replaced)"
        if not (options.skip_existing or options.overwrite):
            note, problem = "", problem or "exists: pass --overwrite or --skip-existing"
    brackets = "".join(f" ({each})" for each in (told, problem) if each)
    return f"{job.source or '-'} -> {job.target or '-'}{brackets}{note}", problem


def _scale_problem(factor: float, model: str | None) -> str:
    """Why a picture cannot grow so much; "" where it can, as far as that can be told before the work."""
    from enlcn.zoo import refuse_scale

    try:
        refuse_scale(factor, model)
    except UserError as error:
        return str(error)
    return ""
