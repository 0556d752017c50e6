"""Single fields of a TIFF file's first directory, classic or BigTIFF, in either byte order: what codecs do not tell."""

import io
import struct
from collections.abc import Collection
from pathlib import Path
from typing import BinaryIO

Value = bytes | tuple[int | float, ...]
_BYTES, _RATIONAL = (1, 2, 6, 7), 5
_NUMBERS = {3: "H", 4: "I", 8: "h", 9: "i", 11: "f", 12: "d", 13: "I", 16: "Q", 17: "q"}
_LARGEST = 2**26  # bytes of a field; and so many fields are more than any file has:
_MOST_FIELDS = 10_000


def tags_of_tiff(source: bytes | Path, wanted: Collection[int]) -> dict[int, Value]:
    """The wanted fields that there are: bytes as they lie there, all else as numbers; none of a damaged file."""
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
        try:
            return _read(file, wanted)
        except (struct.error, OverflowError, OSError, ZeroDivisionError):
            return {}


def _read(file: BinaryIO, wanted: Collection[int]) -> dict[int, Value]:
    head = file.read(16)
    order = "<" if head[:2] == b"II" else ">"
    is_big = struct.unpack_from(f"{order}H", head, 2)[0] == 43
    word, width, counter = ("Q", 8, "Q") if is_big else ("I", 4, "H")
    (place,) = struct.unpack_from(order + word, head, width)
    file.seek(place)
    (fields,) = struct.unpack(order + counter, file.read(struct.calcsize(counter)))
    size = 4 + 2 * width
    entries = file.read(size * min(fields, _MOST_FIELDS))
    found: dict[int, Value] = {}
    for entry in range(0, len(entries) - size + 1, size):
        tag, kind, count = struct.unpack_from(f"{order}HH{word}", entries, entry)
        item = 1 if kind in _BYTES else 8 if kind == _RATIONAL else struct.calcsize(_NUMBERS.get(kind, "0s"))
        if tag not in wanted or tag in found or not 0 < item * count <= _LARGEST:
            continue
        data = entries[entry + 4 + width : entry + size][: item * count]
        if item * count > width:
            file.seek(struct.unpack(order + word, data)[0])
            data = file.read(item * count)
        found[tag] = _value(data, kind, count, order)
    return found


def _value(data: bytes, kind: int, count: int, order: str) -> Value:
    if kind in _BYTES:
        return data
    if kind == _RATIONAL:
        numbers = struct.unpack(f"{order}{2 * count}I", data)
        return tuple(upper / lower for upper, lower in zip(numbers[::2], numbers[1::2], strict=True))
    return struct.unpack(f"{order}{count}{_NUMBERS[kind]}", data)
