"""How strongly a JPEG file was compressed, told by its quantisation table on libjpeg's scale of 1 to 100."""

import io
import math
from functools import cache
from pathlib import Path
from typing import IO

from enlcn.data.degradation_ranges import QUALITIES
from enlcn.data.jpeg_tables import LUMA_STEPS, steps_at

_START, _TABLES, _SCAN, _END = 0xD8, 0xDB, 0xDA, 0xD9
_MOST_MARKERS = 1000  # a file has tens, of which none is repeated
_NO_LENGTH = (0x01, *range(0xD0, 0xD8))
# The order of a table's 64 numbers in files: diagonals of the 8x8, up and down in turns.
_ZIGZAG = sorted(range(64), key=lambda at: (at // 8 + at % 8, at // 8 if (at // 8 + at % 8) % 2 else at % 8))


def jpeg_quality(source: bytes | IO[bytes]) -> int | None:
    """The quality whose table is nearest to a file's table number 0; None where there is none before its pixels.

    Programs with tables of their own, such as cameras, have no such number. Theirs is the one whose steps are as long
    on a logarithmic scale, which is about that of an equal error. Number 0 is that of brightness by common usage.
    """
    steps = _table_0(io.BytesIO(source) if isinstance(source, bytes) else source)
    if steps is None:
        return None
    logarithms = [math.log(max(step, 1)) for step in steps]

    def distance(quality: int) -> float:
        return sum(abs(ours - theirs) for ours, theirs in zip(_libjpegs(quality), logarithms, strict=True))

    return min(QUALITIES, key=distance)


def jpeg_quality_of_file(path: Path) -> int | None:
    """The same of a file of any size."""
    with path.open("rb") as file:
        return jpeg_quality(file)


@cache
def _libjpegs(quality: int) -> list[float]:
    """The logarithms of libjpeg's steps."""
    return [math.log(step) for row in steps_at(LUMA_STEPS, quality) for step in row]


def _table_0(file: IO[bytes]) -> list[int] | None:
    """Its steps, in rows, as they are last told before the pixels; only the file's head is read."""
    if file.read(2) != bytes((0xFF, _START)):
        return None
    steps = None
    for _ in range(_MOST_MARKERS):
        marker = _next_marker(file)
        if marker in (None, _SCAN, _END):
            return steps
        if marker in _NO_LENGTH:
            continue
        length = int.from_bytes(file.read(2)) - 2
        if length < 0:
            return None
        if marker == _TABLES:
            steps = _table_0_of(file.read(length)) or steps
        else:
            file.seek(length, io.SEEK_CUR)
    return None


def _next_marker(file: IO[bytes]) -> int | None:
    """The byte after the next 0xFF, which may be repeated; None at the end, or where there is none."""
    if file.read(1) != b"\xff":
        return None
    for _ in range(_MOST_MARKERS):
        if (byte := file.read(1)) != b"\xff":
            return byte[0] if byte else None
    return None


def _table_0_of(segment: bytes) -> list[int] | None:
    """The first of a segment's tables that is number 0, in rows."""
    while segment:
        size, number = 1 + (segment[0] >> 4), segment[0] & 15
        values, segment = segment[1 : 1 + 64 * size], segment[1 + 64 * size :]
        if len(values) < 64 * size:
            return None
        if number == 0:
            steps = [0] * 64
            for position, at in enumerate(_ZIGZAG):
                steps[at] = int.from_bytes(values[position * size : (position + 1) * size])
            return steps
    return None
