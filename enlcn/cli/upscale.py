"""`enlcn upscale`: pictures and videos in, larger ones out."""

import glob
from pathlib import Path
from typing import Annotated, Any

import typer

from enlcn import interruption
from enlcn.cli import console, picture_options, video_options
from enlcn.cli.upscale_plan import say_plan
from enlcn.cli.upscale_report import STDOUT, check_report, write_report
from enlcn.errors import UserError
from enlcn.files import SKIP_ADVICE, refuse_absent

_SMALLEST_TILE = 16  # the margins around smaller ones are many times the tile itself


def upscale(
    inputs: Annotated[list[str], typer.Argument(help="Files, folders, globs, or - for standard input.")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="A file, a folder, or - for standard output. Default: beside the input; for a folder, FOLDER_x4. "
            "Several input folders keep their names in it. Of a.jpg and a.png together come a_jpg.png and a_png.png.",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option("--scale", "-s", help="How much larger, up to 4; 3.5 works too. Default: the model's own."),
    ] = None,
    width: picture_options.Width = None,
    height: picture_options.Height = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="A model's name, a file, a training run, an address, or untrained:NAME. Default: what is bundled.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps …")] = "auto",
    precision: picture_options.Precision = "auto",
    self_ensemble: picture_options.SelfEnsemble = False,
    format: picture_options.Format = None,
    quality: picture_options.Quality = None,
    lossless: picture_options.Lossless = False,
    background: picture_options.Background = None,
    suffix: Annotated[
        str | None, typer.Option(help="Put before the extension. Default: _x4 beside the input, nothing elsewhere.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave existing outputs: go on with an interrupted run.")
    ] = False,
    mode: Annotated[str, typer.Option(help="whole, streaming (exact, in bounded memory) or auto.")] = "auto",
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory to stay under, such as 2G; at least 512M. Default: 60 % of what is free.")
    ] = None,
    tile: Annotated[
        int | None, typer.Option(help="Side of streamed tiles in input pixels, at least 16; changes speed only.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="torch, onnxruntime, or auto: onnxruntime for .onnx files alone.")
    ] = "auto",
    scratch: Annotated[
        Path | None, typer.Option(help="Folder for scratch files of very large pictures.", file_okay=False, exists=True)
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Pictures at a time.")] = 1,
    max_pixels: picture_options.MaxPixels = None,
    dry_run: picture_options.DryRun = False,
    report: Annotated[
        Path | None, typer.Option(help="Write what was done as JSON, into a file or to - for standard output.")
    ] = None,
    codec: video_options.Codec = "auto",
    crf: video_options.Crf = None,
    preset: video_options.Preset = None,
    pixel_format: video_options.PixelFormat = None,
    start: video_options.Start = None,
    end: video_options.End = None,
    frames: video_options.Frames = None,
    segment: video_options.Segment = 240,
    batch: video_options.FrameBatch = None,
) -> None:
    """Upscale pictures and videos.

    Large pictures are streamed: the result is the same whatever the tile size, without seams. A video keeps its sound,
    subtitles, times and colours; a run that was killed goes on where it was.
    """
    if not (dry_run or skip_existing or report):  # which have more to say of a picture that is not there
        _refuse_absent(inputs)
    from enlcn.upscaling.jobs import Naming, check_format, plan_jobs, several_folders
    from enlcn.upscaling.left_out import LeftOut
    from enlcn.video.jobs import split_videos
    from enlcn.zoo import fetch_remote, native_scale

    if scale is None and width is None and height is None:
        scale = float(native_scale(model))

    label = f"x{scale:g}" if scale is not None else f"{width or ''}x{height or ''}".strip("x")
    naming = Naming(output, check_format(format), suffix, label, apart=several_folders(inputs))
    left_out = LeftOut()
    pictures, videos = split_videos(inputs, naming, left_out)
    planned = plan_jobs(pictures, naming, left_out.told()) if pictures else []
    from enlcn.upscaling.background import parse_colour
    from enlcn.upscaling.picture import Target

    target = Target(scale, width, height)
    if report == STDOUT and (output == "-" or (output is None and "-" in inputs)):
        raise UserError("--report and the picture cannot both go to standard output; name a file for one of them")
    if report is not None:
        check_report(report, [*planned, *videos], overwrite=overwrite, skip_existing=skip_existing)
    if quality is not None and not planned:
        raise UserError("--quality is for pictures; videos take --crf, where smaller is better")
    if (format is not None or lossless) and not planned:
        raise UserError("--format and --lossless are for pictures; a video's file name and --codec say what it becomes")
    if background is not None and not planned:
        raise UserError("--background is for pictures; a video is opaque")
    colour = None if background is None else parse_colour(background)
    if tile is not None and tile < _SMALLEST_TILE:
        raise UserError(f"--tile is {tile}; it must be at least {_SMALLEST_TILE}")
    if quality is not None:
        _tell_idle_quality({job.format for job in planned}, lossless=lossless)
    if not videos and (codec != "auto" or any(v is not None for v in (crf, preset, pixel_format, start, end, frames))):
        raise UserError("the options of videos (--codec, --crf, --start ...) mean nothing here: no input is a video")
    clip = (start, end, frames, segment, batch)
    video = video_options.video_options(videos, codec, crf, preset, pixel_format, *clip) if videos else None
    if dry_run:
        from enlcn.upscaling.devices import resolve_device

        resolve_device(device)
        problems = video_options.say_video_plan(videos, target, video, skip_existing)
        existing = {"skip_existing": skip_existing, "overwrite": overwrite}
        problems += say_plan(planned, target, model, colour, **existing, max_pixels=max_pixels)
        if _tell_left_out(left_out) or problems:
            raise typer.Exit(1)
        return

    from enlcn.upscaling.batch import Batch, BatchOptions
    from enlcn.upscaling.engine import EngineOptions

    fetch_remote([model] if model else [])
    engine_options = EngineOptions(device, precision, mode, self_ensemble, memory_limit, tile, scratch, engine)
    options = BatchOptions(
        target,
        model,
        engine_options,
        quality,
        lossless,
        overwrite,
        skip_existing,
        jobs,
        max_pixels,
        colour,
    )
    outcomes: list[Any] = []
    total = len(planned) + len(videos)
    engines = Batch(options)
    try:
        _run(engines, planned, outcomes, alone=total == 1)
        for outcome in video_options.run_videos(engines, videos, video):
            _note(outcome, outcomes, alone=total == 1)
            interruption.obey()
    except KeyboardInterrupt:
        left = total - len(outcomes)
        advice = "; run it again with --skip-existing for the rest" if total > 1 else ""
        if videos and total == 1:
            advice = "; run it again to go on"
        console.err.print(f"interrupted: {len(outcomes)} of {total} finished, {left} left{advice}")
        raise typer.Exit(interruption.EXIT_CODE) from None
    finally:
        if report is not None:
            write_report(report, outcomes)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    if failed and total == 1:
        raise UserError(failed[0].message)
    if total > 1:
        counts = {status: sum(o.status == status for o in outcomes) for status in ("done", "skipped", "failed")}
        console.say(", ".join(f"{count} {status}" for status, count in counts.items() if count), to=console.err)
        if existing := sum(outcome.message.endswith(SKIP_ADVICE) for outcome in failed):
            console.err.print(f"{existing} exist already{SKIP_ADVICE.replace(' it', ' them')}", markup=False)
    if _tell_left_out(left_out) or failed:
        raise typer.Exit(1)


def _refuse_absent(inputs: list[str]) -> None:
    """A lone input that is not there ends it before torch is imported; of several, the others are still to be done."""
    if len(inputs) == 1 and inputs[0] != "-" and not glob.has_magic(inputs[0]):
        refuse_absent(Path(inputs[0]))


def _tell_idle_quality(formats: set[str], *, lossless: bool) -> None:
    from enlcn.data.image_formats import FORMATS

    if lossless or all(FORMATS[format].quality is None for format in formats):
        why = (
            "with --lossless" if lossless else f"for {' and '.join(FORMATS[format].name for format in sorted(formats))}"
        )
        console.say(f"note: --quality means nothing {why}", to=console.err)


def _tell_left_out(left_out: Any) -> bool:
    """A line for files of other kinds, and one for what could not be read, with errors alone, too; whether any is."""
    if others := left_out.told_others():
        console.say(f"left out: {others}", to=console.err)
    if unread := left_out.told_unread():
        console.err.print(f"[bold red]not read:[/] {console.escape(unread)}")
    return bool(unread)


def _run(batch: Any, planned: list[Any], outcomes: list[Any], *, alone: bool) -> None:
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
