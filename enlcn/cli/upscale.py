"""`enlcn upscale`: pictures and videos in, larger ones out."""

import glob
from pathlib import Path
from typing import Annotated

import typer

from enlcn.cli import console, picture_options, video_options
from enlcn.cli.upscale_plan import plan_work, say_plan
from enlcn.cli.upscale_report import STDOUT, check_report
from enlcn.cli.upscale_run import run
from enlcn.errors import UserError
from enlcn.files import refuse_absent

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
    # None of this imports torch: what is wrong with a command is told at once.
    from enlcn.upscaling.background import parse_colour
    from enlcn.upscaling.batch_options import BatchOptions
    from enlcn.upscaling.engine_options import EngineOptions
    from enlcn.upscaling.jobs import Naming, check_format, several_folders
    from enlcn.upscaling.target import Target
    from enlcn.zoo import fetch_remote, native_scale

    if tile is not None and tile < _SMALLEST_TILE:
        raise UserError(f"--tile is {tile}; it must be at least {_SMALLEST_TILE}")
    if scale is None and width is None and height is None:
        scale = float(native_scale(model))
    options = BatchOptions(
        target=Target(scale, width, height),
        model=model,
        engine=EngineOptions(device, precision, mode, self_ensemble, memory_limit, tile, scratch, engine),
        quality=quality,
        lossless=lossless,
        overwrite=overwrite,
        skip_existing=skip_existing,
        jobs=jobs,
        max_pixels=max_pixels,
        background=None if background is None else parse_colour(background),
    )
    label = f"x{scale:g}" if scale is not None else f"{width or ''}x{height or ''}".strip("x")
    naming = Naming(output, check_format(format), suffix, label, apart=several_folders(inputs))
    work = plan_work(inputs, naming)

    if report == STDOUT and (output == "-" or (output is None and "-" in inputs)):
        raise UserError("--report and the picture cannot both go to standard output; name a file for one of them")
    if report is not None:
        check_report(report, [*work.pictures, *work.videos], overwrite=overwrite, skip_existing=skip_existing)
    if not work.pictures:
        _refuse_options_of_pictures(quality, background, as_format=format is not None or lossless)
    if not work.videos and (
        codec != "auto" or any(v is not None for v in (crf, preset, pixel_format, start, end, frames))
    ):
        raise UserError("the options of videos (--codec, --crf, --start ...) mean nothing here: no input is a video")
    if quality is not None:
        _tell_idle_quality({job.format for job in work.pictures}, lossless=lossless)
    clip = (start, end, frames, segment, batch)
    video = video_options.video_options(work.videos, codec, crf, preset, pixel_format, *clip) if work.videos else None
    if dry_run:
        say_plan(work, options, video)
        return
    work.refuse_at_once(options)
    fetch_remote([model] if model else [])
    run(work, options, video, report)


def _refuse_absent(inputs: list[str]) -> None:
    """A lone input that is not there ends it before torch is imported; of several, the others are still to be done."""
    if len(inputs) == 1 and inputs[0] != "-" and not glob.has_magic(inputs[0]):
        refuse_absent(Path(inputs[0]))


def _refuse_options_of_pictures(quality: int | None, background: str | None, *, as_format: bool) -> None:
    if quality is not None:
        raise UserError("--quality is for pictures; videos take --crf, where smaller is better")
    if as_format:
        raise UserError("--format and --lossless are for pictures; a video's file name and --codec say what it becomes")
    if background is not None:
        raise UserError("--background is for pictures; a video is opaque")


def _tell_idle_quality(formats: set[str], *, lossless: bool) -> None:
    from enlcn.data.image_formats import FORMATS

    if lossless or all(FORMATS[format].quality is None for format in formats):
        why = (
            "with --lossless" if lossless else f"for {' and '.join(FORMATS[format].name for format in sorted(formats))}"
        )
        console.say(f"note: --quality means nothing {why}", to=console.err)
