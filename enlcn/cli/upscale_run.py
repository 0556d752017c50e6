"""`enlcn upscale` at work: bars while it lasts, a line for each result, and an exit code for what became of all."""

from pathlib import Path
from typing import Any

import typer

from enlcn import interruption
from enlcn.cli import console, video_options
from enlcn.cli.upscale_plan import Work, say_left_out
from enlcn.cli.upscale_report import write_report
from enlcn.errors import UserError
from enlcn.files import SKIP_ADVICE


def run(work: Work, options: Any, video: Any, report: Path | None) -> None:
    """Upscale all pictures, then all videos.

    Args:
        work: what to upscale.
        options: the `BatchOptions`.
        video: the `VideoOptions`, where there are videos.
        report: where to write what became of each; written after an interruption, too.
    """
    from enlcn.upscaling.batch import Batch

    outcomes: list[Any] = []
    alone = work.count == 1
    batch = Batch(options)
    try:
        _run_pictures(batch, work.pictures, outcomes, alone=alone)
        for outcome in video_options.run_videos(batch, work.videos, video):
            _note(outcome, outcomes, alone=alone)
            interruption.obey()
    except KeyboardInterrupt:
        advice = "" if alone else "; run it again with --skip-existing for the rest"
        if work.videos and alone:
            advice = "; run it again to go on"
        left = work.count - len(outcomes)
        console.err.print(f"interrupted: {len(outcomes)} of {work.count} finished, {left} left{advice}")
        raise typer.Exit(interruption.EXIT_CODE) from None
    finally:
        if report is not None:
            write_report(report, outcomes)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    if failed and alone:
        raise UserError(failed[0].message)
    if not alone:
        counts = {status: sum(o.status == status for o in outcomes) for status in ("done", "skipped", "failed")}
        console.say(", ".join(f"{count} {status}" for status, count in counts.items() if count), to=console.err)
        if existing := sum(outcome.message.endswith(SKIP_ADVICE) for outcome in failed):
            console.err.print(f"{existing} exist already{SKIP_ADVICE.replace(' it', ' them')}", markup=False)
    _say_compressed(outcomes, alone=alone)
    if say_left_out(work.left_out) or failed:
        raise typer.Exit(1)


def _say_compressed(outcomes: list[Any], *, alone: bool) -> None:
    """One line, however many there are: what the default network does to JPEG files, and which does better."""
    from enlcn.upscaling.batch import Outcome
    from enlcn.zoo import PHOTO_FAMILY, photo_family_helps

    pictures = [(each.jpeg_quality, each.model) for each in outcomes if isinstance(each, Outcome)]
    helped = {kind for kind in set(pictures) if photo_family_helps(*kind)}  # few kinds, however many pictures
    qualities = [quality for quality, model in pictures if quality is not None and (quality, model) in helped]
    if not qualities:
        return
    least, most = min(qualities), max(qualities)
    about = f"about {least}" if least == most else f"{least} to {most}"
    of_several = "1 of the pictures is a JPEG" if len(qualities) == 1 else f"{len(qualities)} of the pictures are JPEGs"
    what = "this is a JPEG" if alone else of_several
    advice = f"-m {PHOTO_FAMILY} removes the artefacts that the default sharpens (with --overwrite, or another -o)"
    console.say(f"note: {what} of quality {about}; {advice}", to=console.err)


def _run_pictures(batch: Any, planned: list[Any], outcomes: list[Any], *, alone: bool) -> None:
    with console.progress_bar() as bar:
        whole = bar.add_task("pictures", total=len(planned), visible=len(planned) > 1)
        tasks: dict[tuple[str, str], Any] = {}

        def watch(job: Any) -> Any:
            name = console.escape(job.source.name) if job.source else "standard input"
            # Of several at a time, only those under way are shown.
            task = bar.add_task(name, total=None, start=False, visible=batch.options.jobs == 1)
            tasks[job.names] = task

            def progress(done: int, total: int) -> None:
                bar.start_task(task)
                bar.update(task, completed=done, total=total, visible=True)

            return progress

        for outcome in batch.run(planned, watch):
            bar.remove_task(tasks.pop((outcome.source, outcome.target)))
            _note(outcome, outcomes, alone=alone)
            bar.advance(whole)


def _note(outcome: Any, outcomes: list[Any], *, alone: bool) -> None:
    if outcome.status == "failed":
        interruption.obey()  # which may be why it failed
    outcomes.append(outcome)
    _say(outcome, alone=alone)


def _say(outcome: Any, *, alone: bool) -> None:
    """One line per picture, on standard error: standard output may carry the picture itself."""
    if outcome.status == "failed":
        if not alone:
            console.err.print(f"[bold red]failed:[/] {console.escape(outcome.message.removesuffix(SKIP_ADVICE))}")
        return
    if outcome.status == "skipped":
        console.say(f"{outcome.target}: exists, skipped", to=console.err)
        return
    sizes = " -> ".join(f"{w}x{h}" for w, h in (outcome.lr_size, outcome.sr_size))
    how = f"{outcome.mode}, {outcome.precision}" + (f", {outcome.disk / 2**20:.0f} MiB scratch" if outcome.disk else "")
    console.say(f"{outcome.target}: {sizes} in {outcome.seconds:.1f} s ({how})", to=console.err)
    for note in outcome.notes:
        console.say(f"  note: {note}", to=console.err)
