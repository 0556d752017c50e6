"""A video's pictures one after the other, each with the time at which it is shown."""

import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from enlcn.errors import UserError
from enlcn.video.colour import to_rgb
from enlcn.video.probe import VideoFacts, main_stream, open_video
from enlcn.video.pyav import first_line, pyav

Item = TypeVar("Item")


@dataclass(frozen=True)
class Clip:
    """The part of a video that is wanted.

    Attributes:
        start, end: seconds from the beginning of the file; None for its beginning and its end.
        frames: at most so many pictures.
    """

    start: Fraction | None = None
    end: Fraction | None = None
    frames: int | None = None

    def __post_init__(self) -> None:
        if self.frames is not None and self.frames < 1:
            raise UserError(f"--frames is {self.frames}; it must be at least 1")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise UserError(f"--start {float(self.start):g} is not before --end {float(self.end):g}")

    def count(self, facts: VideoFacts) -> int | None:
        """About how many pictures there will be, for a progress bar."""
        total = facts.frames
        if total is not None:
            begin = round((self.start or 0) * facts.rate)
            stop = total if self.end is None else min(total, round(self.end * facts.rate))
            total = max(stop - begin, 0)
        known = [count for count in (total, self.frames) if count is not None]
        return min(known) if known else None


@dataclass(frozen=True)
class Picture:
    """RGB pixels (H, W, 3), uint8 or uint16; when it is shown and for how long, in ticks of the stream's time base."""

    pixels: np.ndarray
    pts: int
    duration: int


class Decoder:
    """The pictures of a video from `skip` on, in the order of their times.

    Times are those of the file less its start (or less the first picture wanted, of a clip that starts later). They
    are made to increase where a damaged file has them stand still.
    """

    def __init__(self, path: Path, facts: VideoFacts, clip: Clip):
        self.path, self.facts, self.clip = path, facts, clip
        self.damaged = 0

    def pictures(self, skip: int = 0) -> Iterator[Picture]:
        """Pictures after the first `skip`, which are decoded all the same: that is exact whatever the codec."""
        facts = self.facts
        base = self.first_tick()
        for index, (frame, pts) in enumerate(self._timed()):
            if self.clip.frames is not None and index >= self.clip.frames:
                return
            if index >= skip:
                pixels = to_rgb(frame, facts.height, facts.width, facts.colour)
                yield Picture(pixels, pts - base, frame.duration or self._tick(1 / facts.rate))

    def first_tick(self) -> int:
        """The time that becomes zero, in ticks of the source."""
        if not self.clip.start:
            return self._tick(self.facts.start)
        for _, pts in self._timed():
            return pts
        raise UserError(f"{self.path}: no picture after --start {float(self.clip.start):g}")

    def _tick(self, seconds: Fraction) -> int:
        return round(seconds / self.facts.time_base)

    def _timed(self) -> Iterator[tuple[Any, int]]:
        """Decoded pictures within the clip, with times in ticks of the source that increase strictly."""
        first = None if not self.clip.start else self._tick(self.facts.start + self.clip.start)
        stop = None if self.clip.end is None else self._tick(self.facts.start + self.clip.end)
        step = max(self._tick(1 / self.facts.rate), 1)
        last: int | None = None
        with open_video(self.path) as container:
            stream = main_stream(container)
            stream.thread_type = "AUTO"
            if first is not None:
                container.seek(first, stream=stream, backward=True)
            for frame in self._decoded(container, stream):
                pts = frame.pts if frame.pts is not None else frame.dts
                if pts is None:
                    pts = self._tick(self.facts.start) if last is None else last + step
                if last is not None and pts <= last:
                    pts = last + 1
                last = pts
                if first is not None and pts < first:
                    continue
                if stop is not None and pts >= stop:
                    return
                yield frame, pts

    def _decoded(self, container: Any, stream: Any) -> Iterator[Any]:
        av = pyav()
        self.damaged = 0
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets)
                yield from packet.decode()
            except StopIteration:
                return
            except av.error.EOFError:
                return
            except av.error.InvalidDataError:
                self.damaged += 1  # what follows is still worth having
            except av.FFmpegError as error:
                raise UserError(f"{self.path}: cannot be decoded ({first_line(error)})") from None


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Lists of `size` items, the last one shorter."""
    batch: list[Item] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def ahead(items: Iterator[Item], depth: int) -> Generator[Item]:
    """The same items, made by another thread that stays at most `depth` of them ahead."""
    waiting: queue.Queue[tuple[str, Any]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(entry: tuple[str, Any]) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(("item", item)):
                    return
            put(("end", None))
        except BaseException as error:  # raised again where the items are taken
            put(("error", error))

    worker = threading.Thread(target=make, name="decoding", daemon=True)
    worker.start()
    try:
        while True:
            kind, value = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stopped.set()
        worker.join()
