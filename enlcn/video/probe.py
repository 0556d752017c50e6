"""What a video is: of its pictures, all that a copy must keep."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from enlcn.errors import UserError
from enlcn.files import refuse_absent
from enlcn.video.pyav import first_line, pyav

UNSPECIFIED = 2  # of matrix, primaries and transfer, in the numbers of ITU-T H.273
RGB_MATRIX, BT709, BT601 = 0, 1, 6
LIMITED, FULL = 1, 2
MATRICES = {1: "bt709", 4: "fcc", 5: "bt601", 6: "bt601", 7: "smpte240m", 9: "bt2020"}
# From here on a picture without a tag is taken for bt709, as players do.
_HD_HEIGHT = 720
# Side data of frames that is not carried over, and what it is called.
_LOST = {
    "MASTERING_DISPLAY_METADATA": "HDR mastering data",
    "CONTENT_LIGHT_LEVEL": "HDR light levels",
    "DYNAMIC_HDR_PLUS": "HDR10+ data",
    "DOVI_METADATA": "Dolby Vision data",
    "STEREO3D": "the stereo layout",
    "SPHERICAL": "the spherical projection",
    "A53_CC": "closed captions inside the pictures",
}


@dataclass(frozen=True)
class Colour:
    """How YUV samples stand for colours, in the numbers of ITU-T H.273; range 1 is limited, 2 is full."""

    matrix: int
    range: int
    primaries: int
    transfer: int


@dataclass(frozen=True)
class VideoFacts:
    """The pictures of a video.

    Attributes:
        width, height: as stored, before any rotation for display.
        frames: how many there are, or about how many by rate and length; None where nothing tells.
        is_counted: the file gives the number itself.
        seconds: how long they last together, as the file tells; None where it does not.
        rate: frames per second on average.
        time_base: seconds per tick of the timestamps.
        start: seconds at which the file begins, where that is after zero.
        chroma: "420", "422" or "444".
        bits: of a sample.
        colour: what the samples mean; tags that were missing are filled in by what players assume.
        sample_aspect: width over height of one pixel.
        matrix: the display matrix (rotation, flips), nine integers, or None.
        notes: what a copy cannot keep.
    """

    width: int
    height: int
    frames: int | None
    is_counted: bool
    seconds: Fraction | None
    rate: Fraction
    time_base: Fraction
    start: Fraction
    chroma: str
    bits: int
    colour: Colour
    sample_aspect: Fraction
    matrix: tuple[int, ...] | None
    notes: tuple[str, ...]


def open_video(path: Path) -> Any:
    """The opened container; an error in one line where it is no video."""
    av = pyav()
    refuse_absent(path)
    try:
        container = av.open(str(path), "r", metadata_errors="replace")
    except (av.FFmpegError, OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as a video ({first_line(error)})") from None
    if main_stream(container) is None:
        container.close()
        raise UserError(f"{path}: holds no video stream")
    return container


def main_stream(container: Any) -> Any:
    """The stream that is upscaled: the first that is no cover picture; None where there is none."""
    streams = [s for s in container.streams.video if s.codec_context is not None and not is_cover(s)]
    return streams[0] if streams else None


def is_cover(stream: Any) -> bool:
    """Whether a video stream is a cover picture."""
    return stream.type == "video" and "attached_pic" in str(stream.disposition)


def probe(path: Path) -> VideoFacts:
    """The facts of the main video stream; its first picture is decoded for what only pictures tell."""
    av = pyav()
    with open_video(path) as container:
        stream = main_stream(container)
        frame = _first_frame(container, stream, path)
        rate = stream.average_rate or stream.guessed_rate or Fraction(25)
        pixels = frame.format
        colour = _colour(frame, path)
        side_data = {item.type.name: bytes(item) for item in frame.side_data}
        matrix = side_data.get("DISPLAYMATRIX")
        begin = max(Fraction(container.start_time or 0, av.time_base), Fraction(0))
        return VideoFacts(
            width=frame.width,
            height=frame.height,
            frames=_count(container, stream, rate),
            is_counted=bool(stream.frames),
            seconds=_seconds(container, stream, begin),
            rate=rate,
            time_base=stream.time_base,
            start=begin,
            chroma=_chroma(pixels),
            bits=max(component.bits for component in pixels.components),
            colour=colour,
            sample_aspect=stream.sample_aspect_ratio or Fraction(1),
            matrix=None if matrix is None else tuple(memoryview(matrix).cast("i")),
            notes=_notes(frame, side_data),
        )


def _first_frame(container: Any, stream: Any, path: Path) -> Any:
    av = pyav()
    try:
        for packet in container.demux(stream):
            try:
                frames = packet.decode()
            except av.error.InvalidDataError:
                continue
            if frames:
                return frames[0]
    except av.FFmpegError as error:
        raise UserError(f"{path}: cannot be decoded ({first_line(error)})") from None
    raise UserError(f"{path}: holds no picture that can be decoded")


def _count(container: Any, stream: Any, rate: Fraction) -> int | None:
    if stream.frames:
        return int(stream.frames)
    if stream.duration is not None:
        return round(stream.duration * stream.time_base * rate)
    return round(Fraction(container.duration, pyav().time_base) * rate) if container.duration else None


def _seconds(container: Any, stream: Any, begin: Fraction) -> Fraction | None:
    if stream.duration is not None:
        return Fraction(stream.duration * stream.time_base)
    if (told := re.fullmatch(r"(\d+):(\d+):(\d+(?:\.\d+)?)", stream.metadata.get("DURATION", ""))) is not None:
        hours, minutes, seconds = map(Fraction, told.groups())  # Matroska's: when the last picture ends
        return 3600 * hours + 60 * minutes + seconds - begin
    if container.duration and len(container.streams) == 1:  # of several, it is the longest one's
        return Fraction(container.duration, pyav().time_base)
    return None


def _chroma(pixels: Any) -> str:
    if pixels.is_rgb:
        return "444"
    if len(pixels.components) < 3:
        return "420"  # grey: what every player takes
    across = pixels.chroma_width(64) < 64
    down = pixels.chroma_height(64) < 64
    return "420" if across and down else "422" if across else "444"


def _colour(frame: Any, path: Path) -> Colour:
    if frame.format.is_rgb:
        return Colour(BT709, LIMITED, frame.color_primaries, frame.color_trc)
    matrix, span = frame.colorspace, frame.color_range
    if matrix in (UNSPECIFIED, RGB_MATRIX):
        matrix = BT709 if frame.height >= _HD_HEIGHT else BT601
    if matrix not in MATRICES:
        raise UserError(f"{path}: its colour matrix (number {matrix} of ITU-T H.273) cannot be converted")
    if span not in (LIMITED, FULL):
        span = FULL if frame.format.name.startswith("yuvj") else LIMITED
    return Colour(matrix, span, frame.color_primaries, frame.color_trc)


def _notes(frame: Any, side_data: dict[str, bytes]) -> tuple[str, ...]:
    notes = [f"{name} cannot be kept" for key, name in _LOST.items() if key in side_data]
    if any(component.is_alpha for component in frame.format.components):
        notes.append("transparency cannot be kept")
    if frame.interlaced_frame:
        notes.append("the video is interlaced and upscaled as it is; deinterlace it first for better pictures")
    return tuple(notes)
