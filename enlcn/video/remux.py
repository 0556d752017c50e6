"""The finished file: coded pictures from the segments, everything else packet by packet from the source."""

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from enlcn.errors import UserError
from enlcn.video.codecs import CODECS
from enlcn.video.encoding import EncodePlan, SegmentEncoder, configure
from enlcn.video.probe import is_cover, main_stream, open_video
from enlcn.video.pyav import first_line, pyav
from enlcn.video.segments import read_header, read_packets
from enlcn.video.subtitles import SubtitleConverter, text_form

# Written by the muxer itself, or true of the old file only.
_NOT_COPIED = {"encoder", "major_brand", "minor_version", "compatible_brands", "duration", "number_of_frames"}
_NOT_COPIED |= {"number_of_bytes", "bps", "vendor_id"}
# What MP4 has between two subtitles; its muxer puts it there itself, and would double it.
_NO_TEXT = b"\0\0"
# Seconds by which streams may lie apart in a file: what comes later than that is no part of a clip.
_INTERLEAVING = 30


@dataclass(frozen=True)
class RemuxPlan:
    """What goes into the finished file.

    Attributes:
        source: where audio, subtitles, chapters and metadata come from.
        container: by FFmpeg's name.
        encoding: how the pictures were encoded.
        matrix: the display matrix for pictures of the new size, or None.
        shift: seconds of the source that become zero.
        is_clip: whether only what lies beside the pictures is taken, not the whole length.
    """

    source: Path
    container: str
    encoding: EncodePlan
    matrix: tuple[int, ...] | None
    shift: Fraction = Fraction(0)
    is_clip: bool = False


def check_output(plan: RemuxPlan, folder: Path, target: Path) -> tuple[str, ...]:
    """Write a header and nothing more: what does not fit is known before the work. Returns notes."""
    SegmentEncoder(plan.encoding, target)  # an encoder that cannot be opened is not the container's fault
    trial = folder / f"trial{target.suffix}"
    try:
        with open_video(plan.source) as source:
            opened = _Output(plan, source, trial, target)
            opened.container.close()
            return opened.notes
    finally:
        trial.unlink(missing_ok=True)


def remux(plan: RemuxPlan, segments: list[Path], file: Path, target: Path) -> int:
    """Write `file`, which will be called `target`, from segments in their order; returns how many packets of other
    streams were too damaged to be taken.
    """
    damaged = 0
    headers = [read_header(path) for path in segments]
    times = sorted(pts for header in headers for pts, _, _ in header.packets)
    with open_video(plan.source) as source:
        opened = _Output(plan, source, file, target)
        for path, header in zip(segments, headers, strict=True):
            if bytes.fromhex(header.extradata) != bytes(opened.video.codec_context.extradata or b""):
                opened.container.close()
                raise UserError(f"{path.parent}: made by another {plan.encoding.encoder}; delete this folder")
        end = (times[-1] + headers[-1].last_duration) * plan.encoding.time_base
        pictures = opened.pictures(segments, times, headers[-1].last_duration)
        others = opened.others(source, end)
        for _, _, packet in heapq.merge(pictures, others, key=lambda item: item[:2]):
            try:
                opened.container.mux(packet)
            except pyav().error.InvalidDataError:
                if packet.stream is opened.video:
                    raise
                damaged += 1
        opened.container.close()
    return damaged + opened.damaged


def decode_times(times: list[int], order: list[int], step: int) -> list[int]:
    """When each coded picture must be decoded: increasing, and never after it is shown.

    Args:
        times: when pictures are shown, sorted.
        order: the same in the order of coding.
        step: ticks between pictures, for the time before the first.
    """
    rank = {pts: index for index, pts in enumerate(times)}
    delay = max((index - rank[pts] for index, pts in enumerate(order)), default=0)
    before = [times[0] - (delay - index) * step for index in range(min(delay, len(times)))]
    return before + times[: len(times) - len(before)]


class _Output:
    """The opened output: its streams, and what could not be taken along."""

    def __init__(self, plan: RemuxPlan, source: Any, file: Path, target: Path):
        av = pyav()
        self.plan = plan
        options = {"movflags": "+faststart"} if plan.container in ("mp4", "mov") else {}
        self.container = av.open(str(file), "w", format=plan.container, container_options=options)
        # No random numbers and dates: the same run gives the same bytes.
        self.container.flags |= av.container.Flags.bitexact.value
        self.video = self._add_video(source, target)
        self.copied: dict[int, Any] = {}
        self.converters: dict[int, SubtitleConverter] = {}
        self.damaged = 0  # packets that could not be converted
        notes = [self._add_copy(stream, main_stream(source)) for stream in source.streams]
        self.notes = tuple(note for note in notes if note is not None)
        self.container.metadata.update(_kept(source.metadata))
        self.container.set_chapters(self._chapters(source))
        try:
            self.container.start_encoding()
        except (av.FFmpegError, OSError, ValueError) as error:
            streams = ", ".join(s.codec_context.name for s in self.copied.values() if s.codec_context is not None)
            raise UserError(
                f"{target}: {plan.container} cannot hold {plan.encoding.encoder} with {streams or 'no other stream'} "
                f"({first_line(error)}); choose another --codec, or write .mkv"
            ) from None

    def _add_video(self, source: Any, target: Path) -> Any:
        encoding, stream = self.plan.encoding, main_stream(source)
        sizes = {"width": encoding.width, "height": encoding.height, "time_base": encoding.time_base}
        try:
            video = self.container.add_stream(encoding.encoder, rate=encoding.rate, **sizes)
        except ValueError:
            can = [name for name, codec in CODECS.items() if codec.encoder in self.container.supported_codecs]
            self.container.close()
            raise UserError(
                f"{target}: {self.plan.container} cannot hold {encoding.encoder}; it takes {', '.join(can)}"
            ) from None
        configure(video.codec_context, encoding)
        if encoding.encoder in ("libx265", "hevc_nvenc") and self.plan.container in ("mp4", "mov"):
            video.codec_context.codec_tag = "hvc1"  # Apple's players take no other
        if self.plan.matrix is not None:
            video.set_display_matrix(self.plan.matrix)
        video.metadata.update(_kept(stream.metadata))
        return video

    def _add_copy(self, stream: Any, main: Any) -> str | None:
        """Take a stream along; returns a note where that cannot be."""
        if stream.index == main.index:
            return None
        codec = stream.codec_context.name if stream.codec_context is not None else "unknown"
        label = f"{stream.type} stream {stream.index} ({codec})"
        if is_cover(stream):
            return f"the cover picture (stream {stream.index}) was left out"
        if stream.type not in ("audio", "subtitle", "attachment"):
            return f"{label} was left out"
        note = None
        try:
            copy = self.container.add_stream_from_template(stream)
        except ValueError:
            form = text_form(codec, self.plan.container)
            if form is None:
                advice = "" if self.plan.container == "matroska" else "; .mkv may hold it"
                return f"{label} cannot go into {self.plan.container} and was left out{advice}"
            self.converters[stream.index] = SubtitleConverter(stream, self.container, form)
            copy = self.converters[stream.index].stream
            note = f"{label} cannot go into {self.plan.container} and was turned into {form}"
        copy.metadata.update(_kept(stream.metadata))
        if stream.type != "attachment":  # those lie in the header
            self.copied[stream.index] = copy
        return note

    def pictures(self, segments: list[Path], times: list[int], last: int) -> Iterator[tuple[Fraction, int, Any]]:
        """Packets of the segments with their decoding times."""
        encoding = self.plan.encoding
        order = [pts for path in segments for pts, _, _ in read_header(path).packets]
        step = max(1, round(1 / encoding.rate / encoding.time_base))
        decoded = iter(decode_times(times, order, step))
        for path in segments:
            for coded in read_packets(path):
                packet = pyav().Packet(coded.data)
                following = bisect_right(times, coded.pts)
                packet.pts, packet.dts = coded.pts, next(decoded)
                packet.duration = times[following] - coded.pts if following < len(times) else last
                packet.is_keyframe = coded.is_key
                packet.time_base = encoding.time_base
                packet.stream = self.video
                yield packet.dts * encoding.time_base, self.video.index, packet

    def others(self, source: Any, end: Fraction) -> Iterator[tuple[Fraction, int, Any]]:
        """Packets of the other streams as they are, shifted in time; of a clip only those beside its pictures."""
        wanted = [stream for stream in source.streams if stream.index in self.copied]
        if not wanted:
            return
        last: dict[int, int] = {}
        if self.plan.is_clip and self.plan.shift > 0:
            source.seek(int(self.plan.shift * pyav().time_base), backward=True)
        for packet in source.demux(wanted):
            if packet.pts is None and packet.dts is None:
                continue  # the end
            if packet.pts is None:
                packet.pts = packet.dts
            if packet.dts is None:
                packet.dts = packet.pts
            if packet.stream.codec_context.name == "mov_text" and bytes(packet) == _NO_TEXT:
                continue
            shift = round(self.plan.shift / packet.time_base)
            packet.pts, packet.dts = packet.pts - shift, packet.dts - shift
            shown = packet.pts * packet.time_base
            if self.plan.is_clip and shown > end + _INTERLEAVING:
                return
            if self.plan.is_clip and not 0 <= shown < end:
                continue
            _keep_in_order(packet, last)
            index = packet.stream.index
            converted = self._converted(packet, index) if index in self.converters else packet
            if converted is not None:
                converted.stream = self.copied[index]
                yield converted.dts * converted.time_base, converted.stream.index, converted

    def _converted(self, packet: Any, index: int) -> Any | None:
        try:
            return self.converters[index](packet)
        except pyav().error.FFmpegError:  # no text that can be read, or more of it than the other form takes
            self.damaged += 1
            return None

    def _chapters(self, source: Any) -> list[dict[str, Any]]:
        chapters = []
        for chapter in source.chapters():
            shift = round(self.plan.shift / chapter["time_base"])
            moved = chapter | {"start": max(0, chapter["start"] - shift), "end": chapter["end"] - shift}
            if moved["end"] > 0:
                chapters.append(moved)
        return chapters


def _keep_in_order(packet: Any, last: dict[int, int]) -> None:
    """Decoding times that stand still or go back, as damaged files have them, are no longer accepted by muxers."""
    index, least = packet.stream.index, packet.dts
    if index in last:
        least = last[index] + (packet.stream.type != "subtitle")  # of which several may start at once
    packet.dts = max(packet.dts, least)
    packet.pts = max(packet.pts, packet.dts)
    last[index] = packet.dts


def _kept(metadata: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if key.lower() not in _NOT_COPIED}
