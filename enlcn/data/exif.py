"""What this package must know about an EXIF block: where it starts, which way is up, and where its thumbnail hangs.

An EXIF block is a small TIFF file: byte-order mark, offset of the first directory, then 12-byte entries.
"""

import struct

ORIENTATION_TAG = 0x0112
EXIF_PREFIX = b"Exif\0\0"  # before the block in JPEG files
_SHORT = 3


def without_prefix(exif: bytes | None) -> bytes | None:
    """The block from its byte-order mark on; None if it is not one."""
    if exif is None:
        return None
    exif = exif.removeprefix(EXIF_PREFIX)
    return exif if exif[:4] in (b"II*\0", b"MM\0*") else None


def orientation_of(exif: bytes | None) -> int:
    """Orientation 1 to 8; 1 where it is absent or damaged."""
    place = _orientation_entry(exif) if exif else None
    if exif is None or place is None:
        return 1
    value = struct.unpack_from(f"{_byte_order(exif)}H", exif, place + 8)[0]
    return value if 1 <= value <= 8 else 1


def with_upright_orientation(exif: bytes) -> bytes:
    """The same block with its orientation, where it has one, set to 1; a thumbnail that is still turned is let go."""
    place = _orientation_entry(exif)
    if place is None:
        return exif
    is_turned = orientation_of(exif) != 1
    entry = struct.pack(f"{_byte_order(exif)}HHIHH", ORIENTATION_TAG, _SHORT, 1, 1, 0)
    exif = exif[:place] + entry + exif[place + len(entry) :]
    return _without_thumbnail(exif) if is_turned else exif


def _without_thumbnail(exif: bytes) -> bytes:
    """The same block with no second directory, which is the thumbnail's."""
    order = _byte_order(exif)
    (directory,) = struct.unpack_from(f"{order}I", exif, 4)
    (entries,) = struct.unpack_from(f"{order}H", exif, directory)
    link = directory + 2 + 12 * entries
    return exif[:link] + bytes(4) + exif[link + 4 :] if link + 4 <= len(exif) else exif


def _byte_order(exif: bytes) -> str:
    return "<" if exif.startswith(b"II") else ">"


def _orientation_entry(exif: bytes) -> int | None:
    """Where the orientation's 12-byte entry starts in the first directory."""
    order = _byte_order(exif)
    try:
        (directory,) = struct.unpack_from(f"{order}I", exif, 4)
        (entries,) = struct.unpack_from(f"{order}H", exif, directory)
        for place in range(directory + 2, directory + 2 + 12 * entries, 12):
            (tag,) = struct.unpack_from(f"{order}H", exif, place)
            if tag == ORIENTATION_TAG and place + 12 <= len(exif):
                return place
    except struct.error:  # the block is cut short
        return None
    return None
