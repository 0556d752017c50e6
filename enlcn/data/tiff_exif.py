"""EXIF and IPTC in TIFF files, which the codecs do not write, or not whole: an EXIF block is itself a small TIFF.

A directory is a list of 12-byte entries (tag, type, count, value or its offset); some tags point to a directory.
"""

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from enlcn.data.iptc import IPTC_TAG

_TYPE_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_NUMBER_SIZES = _TYPE_SIZES | {5: 4, 10: 4}  # a rational is two numbers
_LONG, _UNDEFINED = 4, 7
_CLASSIC_LIMIT = 2**32 - 2**20
_EXIF_TAG = 0x8769
_DIRECTORY_TAGS = (_EXIF_TAG, 0x8825, 0xA005)  # EXIF, GPS, interoperability
_SIZE_TAGS = {0xA002: 0x0100, 0xA003: 0x0101}  # width and height as EXIF gives them, and as every TIFF does
# ImageDescription, Make, Model, Software, DateTime, Artist, Copyright: about the picture, not about how it is stored
_ABOUT_PICTURE = (0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x013B, 0x8298, *_DIRECTORY_TAGS)


@dataclass(frozen=True)
class _Value:
    type: int
    count: int
    data: bytes  # little-endian


_Directory = dict[int, "_Value | _Directory"]


def exif_of_tiff(tiff: bytes | mmap.mmap) -> bytes | None:
    """What a TIFF file tells about its picture, as an EXIF block; None where it tells nothing."""
    try:
        first, _ = _Reader(tiff).first_directory()
    except (struct.error, ValueError):
        return None
    about = {tag: value for tag, value in first.items() if tag in _ABOUT_PICTURE}
    return b"II*\0" + struct.pack("<I", 8) + _packed(about, 8, 0) if about else None


def exif_of_tiff_file(path: Path) -> bytes | None:
    """As `exif_of_tiff`, of a file too large to be read whole."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as tiff:
        return exif_of_tiff(tiff)


def tiff_with_metadata(tiff: bytes, exif: bytes | None, iptc: bytes | None) -> bytes:
    """A little-endian TIFF file with what tells about the picture added to its first directory.

    The file comes back as it is where it is no such file, or there is nothing sound to add.

    Args:
        tiff: the file.
        exif: an EXIF block; what it tells about the picture is taken.
        iptc: records, all of which are taken.
    """
    addition = _addition(tiff, exif, iptc)
    if addition is None:
        return tiff
    padded = tiff + b"\0" * (len(tiff) % 2)
    return padded[:4] + struct.pack("<I", len(padded)) + padded[8:] + addition


def add_metadata_to_tiff_file(path: Path, exif: bytes | None, iptc: bytes | None) -> bool:
    """As `tiff_with_metadata`, in place; False where the file cannot take it and stays as it is."""
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as tiff:
            addition = _addition(tiff, exif, iptc)
        if addition is None:
            return False
        size = file.seek(0, os.SEEK_END)
        file.write(b"\0" * (size % 2) + addition)
        file.seek(4)
        file.write(struct.pack("<I", size + size % 2))
    return True


def _addition(tiff: bytes | mmap.mmap, exif: bytes | None, iptc: bytes | None) -> bytes | None:
    """The first directory with what is to be added, to be put at the next even offset; None where it cannot be."""
    place = len(tiff) + len(tiff) % 2
    size = len(exif or b"") + len(iptc or b"")
    if tiff[:4] != b"II*\0" or size == 0 or place + size >= _CLASSIC_LIMIT:  # BigTIFF has other directories
        return None
    try:
        first, next_directory = _Reader(tiff).first_directory(follow=False)
    except (struct.error, ValueError):
        return None
    merged = _about_picture(exif, first) | first
    if iptc:
        merged[IPTC_TAG] = _Value(_UNDEFINED, len(iptc), iptc)
    return _packed(merged, place, next_directory)


def _about_picture(exif: bytes | None, first: _Directory) -> _Directory:
    """What an EXIF block tells about a picture whose directory is `first`; nothing where it is damaged."""
    if exif is None:
        return {}
    try:
        about, _ = _Reader(exif).first_directory()
    except (struct.error, ValueError):
        return {}
    details = about.get(_EXIF_TAG)
    if isinstance(details, dict):  # it may be of the picture before it was upscaled
        about[_EXIF_TAG] = details | {tag: first[own] for tag, own in _SIZE_TAGS.items() if tag in details}
    return {tag: value for tag, value in about.items() if tag in _ABOUT_PICTURE}


class _Reader:
    """Reads directories; their values together may not exceed the file, or overlapping ones could fill memory."""

    def __init__(self, data: bytes | mmap.mmap):
        self.data, self.budget = data, len(data)
        if data[:4] not in (b"II*\0", b"MM\0*"):
            raise ValueError("neither a classic TIFF file nor an EXIF block")
        self.order = "<" if data[:2] == b"II" else ">"

    def first_directory(self, follow: bool = True) -> tuple[_Directory, int]:
        """The first directory, those below it read too if `follow`, and the offset of the next."""
        (place,) = self._unpack("I", 4)
        directory = self._directory(place, depth=2 if follow else 0)
        (entries,) = self._unpack("H", place)
        return directory, self._unpack("I", place + 2 + 12 * entries)[0]

    def _unpack(self, format: str, place: int) -> tuple[int, ...]:
        return struct.unpack_from(self.order + format, self.data, place)

    def _directory(self, place: int, depth: int) -> _Directory:
        directory: _Directory = {}
        (entries,) = self._unpack("H", place)
        for entry in range(place + 2, place + 2 + 12 * entries, 12):
            tag, kind, count = self._unpack("HHI", entry)
            size = _TYPE_SIZES.get(kind, 0) * count
            if size == 0 or tag in directory:
                continue
            start = entry + 8 if size <= 4 else self._unpack("I", entry + 8)[0]
            self.budget -= size
            if self.budget < 0 or start + size > len(self.data):
                raise ValueError("a value lies outside the file")
            if tag in _DIRECTORY_TAGS and depth > 0:
                directory[tag] = self._directory(self._unpack("I", entry + 8)[0], depth - 1)
            else:
                value = self.data[start : start + size]
                directory[tag] = _Value(kind, count, self._little_endian(value, _NUMBER_SIZES[kind]))
        return directory

    def _little_endian(self, value: bytes, number_size: int) -> bytes:
        if self.order == "<":
            return value
        return b"".join(value[i : i + number_size][::-1] for i in range(0, len(value), number_size))


def _packed(directory: _Directory, place: int, next_directory: int) -> bytes:
    """A directory with all it points to, to be put at offset `place`."""
    entries = struct.pack("<H", len(directory))
    data_at = place + 2 + 12 * len(directory) + 4
    data = b""
    for tag, value in sorted(directory.items()):  # the standard wants ascending tags
        if isinstance(value, dict):
            entries += struct.pack("<HHII", tag, _LONG, 1, data_at + len(data))
            data += _packed(value, data_at + len(data), 0)
        elif len(value.data) <= 4:
            entries += struct.pack("<HHI", tag, value.type, value.count) + value.data.ljust(4, b"\0")
        else:
            entries += struct.pack("<HHII", tag, value.type, value.count, data_at + len(data))
            data += value.data
        data += b"\0" * (len(data) % 2)
    return entries + struct.pack("<I", next_directory) + data
