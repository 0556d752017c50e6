"""The streams of a video as a table: `python -m enlcn.video.stream_table FILE…`, before and after."""

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from enlcn.errors import UserError
from enlcn.video.probe import FULL, LIMITED, MATRICES, open_video


def stream_table(path: Path) -> list[dict[str, str]]:
    """A row per stream: what a user compares before and after."""
    rows = []
    with open_video(path) as container:
        measured = _measured(container)
        for stream in container.streams:
            codec = stream.codec_context.name if stream.codec_context is not None else "-"
            codec = {"libdav1d": "av1", "libvpx-vp9": "vp9"}.get(codec, codec)
            frames, seconds = measured.get(stream.index, (0, None))
            begin = "-" if stream.start_time is None else f"{float(stream.start_time * stream.time_base):.3f}"
            rows.append(
                {
                    "stream": str(stream.index),
                    "type": stream.type,
                    "codec": codec,
                    "content": _content(stream, frames),
                    "language": stream.language or "-",
                    "time base": str(stream.time_base),
                    "start": begin,
                    "seconds": "-" if seconds is None else f"{float(seconds):.3f}",
                }
            )
    return rows


def _measured(container: Any) -> dict[int, tuple[int, Fraction]]:
    """Frames and seconds of every stream that has some: by the header, or counted where that says nothing (.mkv)."""
    timed = [stream for stream in container.streams if stream.type in ("video", "audio", "subtitle")]
    if all(stream.duration is not None and (stream.frames or stream.type != "video") for stream in timed):
        return {stream.index: (stream.frames, stream.duration * stream.time_base) for stream in timed}
    spans: dict[int, tuple[int, Fraction, Fraction]] = {}
    for packet in container.demux(timed):
        if packet.pts is None:
            continue  # the end
        begin = packet.pts * packet.time_base
        end = begin + (packet.duration or 0) * packet.time_base
        count, first, last = spans.get(packet.stream.index, (0, begin, end))
        spans[packet.stream.index] = (count + 1, min(first, begin), max(last, end))
    return {index: (count, last - first) for index, (count, first, last) in spans.items()}


def _content(stream: Any, frames: int) -> str:
    context = stream.codec_context
    if stream.type == "audio":
        return f"{context.sample_rate} Hz {context.layout.name}"
    if stream.type != "video":
        return "-"
    matrix = MATRICES.get(context.colorspace, "no matrix")
    span = {LIMITED: "limited", FULL: "full"}.get(context.color_range, "no range")
    aspect = stream.sample_aspect_ratio or "-"
    count = str(frames) if frames else "-"
    return f"{context.width}x{context.height} {context.pix_fmt} {matrix} {span}, SAR {aspect}, {count} frames"


def format_table(rows: list[dict[str, str]]) -> str:
    """Rows as Markdown."""
    columns = list(rows[0])
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}

    def line(cells: dict[str, str]) -> str:
        return "| " + " | ".join(cells[name].ljust(widths[name]) for name in columns) + " |"

    rule = {name: "-" * widths[name] for name in columns}
    return "\n".join([line({name: name for name in columns}), line(rule), *map(line, rows)])


def main(names: list[str]) -> None:
    """Print the tables of all files; what is wrong with one is told in a line, and ends the program with code 2."""
    try:
        if not names:
            raise UserError("name the videos: python -m enlcn.video.stream_table FILE...")
        for name in names:
            print(f"{name}\n\n{format_table(stream_table(Path(name)))}\n")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
