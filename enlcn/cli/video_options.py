"""What `enlcn upscale` takes for videos alone, and how it runs them."""

import re
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Annotated, Any

import typer

from enlcn.cli import console
from enlcn.errors import MissingExtraError, UserError

_PANEL = "Video"

Codec = Annotated[
    str,
    typer.Option(
        "--codec",
        rich_help_panel=_PANEL,
        help="h264, hevc, av1, vp9, ffv1 (lossless), prores, h264-nvenc, hevc-nvenc or av1-nvenc. "
        "Default: h264, in .webm vp9.",
    ),
]
Crf = Annotated[
    int | None,
    typer.Option("--crf", rich_help_panel=_PANEL, help="Constant quality, smaller is better. Default: 16 for h264."),
]
Preset = Annotated[
    str | None,
    typer.Option("--preset", rich_help_panel=_PANEL, help="Speed of the encoder: fast, slow …; the profile of ProRes."),
]
PixelFormat = Annotated[
    str | None,
    typer.Option("--pixel-format", rich_help_panel=_PANEL, help="Such as yuv420p. Default: like the source's."),
]
Start = Annotated[
    str | None,
    typer.Option("--start", metavar="TIME", rich_help_panel=_PANEL, help="From here on: 90 or 1:30.5."),
]
End = Annotated[str | None, typer.Option("--end", metavar="TIME", rich_help_panel=_PANEL, help="Up to here.")]
Frames = Annotated[
    int | None, typer.Option("--frames", rich_help_panel=_PANEL, help="At most so many pictures: for a preview.")
]
Segment = Annotated[
    int,
    typer.Option(
        "--segment", rich_help_panel=_PANEL, help="Pictures per segment: a killed run goes on at the last whole one."
    ),
]
FrameBatch = Annotated[
    int | None,
    typer.Option(
        "--batch", rich_help_panel=_PANEL, help="Pictures through the network at a time. Default: by device and memory."
    ),
]


def video_options(
    jobs: list[Any],
    codec: str,
    crf: int | None,
    preset: str | None,
    pixel_format: str | None,
    start: str | None,
    end: str | None,
    frames: int | None,
    segment: int,
    batch: int | None,
) -> Any:
    """The options as the verb takes them; what no video could be encoded with is an error before any work."""
    from enlcn.video import EncodeOptions, VideoOptions
    from enlcn.video.decoding import Clip
    from enlcn.video.encoding import check_options
    from enlcn.video.jobs import container_for

    clip = Clip(parse_time("--start", start), parse_time("--end", end), frames)
    options = VideoOptions(EncodeOptions(codec, crf, preset, pixel_format), clip, segment, batch)
    with suppress(MissingExtraError):  # told of each video, and no hindrance to pictures
        for container in dict.fromkeys(container_for(job.target) for job in jobs):
            check_options(options.encode, container)
    return options


def parse_time(option: str, text: str | None) -> Fraction | None:
    """Seconds, minutes:seconds or hours:minutes:seconds."""
    if text is None:
        return None
    if not re.fullmatch(r"(\d{1,9}:){0,2}\d{1,9}(\.\d{0,9})?", text, re.ASCII):
        raise UserError(f"{option} is '{text}'; give a time such as 90, 1:30 or 0:01:30.5")
    seconds = Fraction(0)
    for part in text.split(":"):
        seconds = seconds * 60 + Fraction(part)
    return seconds


def run_videos(batch: Any, jobs: list[Any], options: Any) -> Iterator[Any]:
    """Upscale videos one after the other, each with a bar of its pictures; gives what became of each."""
    if not jobs:
        return
    from enlcn.video import upscale_video

    for job in jobs:
        with console.progress_bar() as bar:
            task = bar.add_task(job.source.name, total=None)

            def progress(done: int, total: int | None, bar: Any = bar, task: Any = task) -> None:
                if bar.tasks[0].total is None:
                    bar.reset(task, total=total, completed=done)  # what is there already says nothing about the speed
                bar.update(task, completed=done, total=total)

            outcome = upscale_video(batch, job, options, progress)
        yield outcome
