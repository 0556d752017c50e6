"""IPTC metadata (captions, keywords, credits of the press): the same records, wrapped differently in JPEG and TIFF.

A record is 0x1C, its group, its number, its length and its content. TIFF holds them bare, JPEG in a block of
Photoshop's (APP13), one of several kinds of blocks there. PNG, WebP and AVIF have no place for them.
"""

import struct
from pathlib import Path

from enlcn.data.tiff_tags import tags_of_tiff

_PHOTOSHOP = b"Photoshop 3.0\0"
_RESOURCE = b"8BIM"
_IPTC = 0x0404
_TIFF_PHOTOSHOP = 34377
IPTC_TAG = 33723
_MARK = 0x1C
_LARGEST_IN_JPEG = 65_000  # of a segment's 65,533 bytes


def iptc_of(block: bytes | None) -> bytes | None:
    """The bare records in what a JPEG or TIFF file holds of them; None where there are none."""
    if block is None:
        return None
    if block.startswith((_PHOTOSHOP, _RESOURCE)):
        block = _resource(block.removeprefix(_PHOTOSHOP))
    elif block[3:4] == bytes([_MARK]) != block[:1]:  # words in the other byte order, as libtiff gives them
        block = b"".join(block[place : place + 4][::-1] for place in range(0, len(block), 4))
    return block[: _end(block)] or None


def iptc_of_tiff(source: bytes | Path) -> bytes | None:
    """The bare records of a TIFF file; some programs put them among Photoshop's blocks alone."""
    tags = tags_of_tiff(source, (IPTC_TAG, _TIFF_PHOTOSHOP))
    told = tags.get(IPTC_TAG, b"")
    if isinstance(told, tuple):  # libtiff used to count them in words
        told = b"".join(struct.pack("<I", int(word) & 0xFFFFFFFF) for word in told)
    blocks = tags.get(_TIFF_PHOTOSHOP)
    return iptc_of(told) or iptc_of(blocks if isinstance(blocks, bytes) else None)


def jpeg_block(iptc: bytes) -> bytes | None:
    """Records as JPEG files hold them; None where they are too long for that."""
    if len(iptc) > _LARGEST_IN_JPEG:
        return None
    head = _RESOURCE + struct.pack(">HHI", _IPTC, 0, len(iptc))
    return _PHOTOSHOP + head + iptc + bytes(len(iptc) % 2)


def iptc_note(format: str, iptc: bytes | None) -> str:
    """That records are lost where a format's files cannot hold them; "" where they can, or where there are none.

    >>> iptc_note("png", b"records"), iptc_note("tiff", b"records")
    ('its IPTC metadata is left out; only JPEG and TIFF hold it', '')
    """
    if iptc is None or format == "tiff":
        return ""
    if format != "jpeg":
        return "its IPTC metadata is left out; only JPEG and TIFF hold it"
    return "" if jpeg_block(iptc) is not None else "its IPTC metadata is left out; it is too long for JPEG"


def _resource(block: bytes) -> bytes:
    """The content of the IPTC block among Photoshop's; b"" where there is none, or it is damaged."""
    place = 0
    while block[place : place + 4] == _RESOURCE and place + 8 <= len(block):
        (kind,) = struct.unpack_from(">H", block, place + 4)
        place += 6 + (block[place + 6] + 2) // 2 * 2  # a name, padded with its length to an even number
        if place + 4 > len(block):
            break
        (length,) = struct.unpack_from(">I", block, place)
        if kind == _IPTC:
            return block[place + 4 : place + 4 + length]
        place += 4 + (length + 1) // 2 * 2
    return b""


def _end(records: bytes) -> int:
    """Where the last whole record ends: what follows is padding or damaged."""
    place = 0
    while place + 5 <= len(records) and records[place] == _MARK:
        (length,) = struct.unpack_from(">H", records, place + 3)
        start = place + 5
        if length & 0x8000:  # so many bytes hold the length
            width = length & 0x7FFF
            length, start = int.from_bytes(records[start : start + width], "big"), start + width
        if start + length > len(records):
            break
        place = start + length
    return place
