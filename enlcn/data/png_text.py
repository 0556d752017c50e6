"""The texts in PNG files (title, author, how a picture was made), carried over byte for byte.

Both codecs would change them: one writes UTF-8 where the format says Latin-1, the other drops what it does not know.
"""

import io
import os
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KINDS = (b"tEXt", b"zTXt", b"iTXt")
_END = struct.pack(">I4sI", 0, b"IEND", zlib.crc32(b"IEND"))
# Packets of metadata in the guise of texts: XMP is carried over by itself, and EXIF in this old form turns pictures.
_NOT_TEXTS = (b"XML:com.adobe.xmp\0", b"Raw profile type ")


def texts_of_png(data: bytes) -> bytes:
    """The text chunks of a PNG file in memory, one after the other; damaged ones are left out."""
    return _texts_of(io.BytesIO(data))


def texts_of_png_file(path: Path) -> bytes:
    """As `texts_of_png`, of a file on disk, of which little is read."""
    with path.open("rb") as file:
        return _texts_of(file)


def png_with_texts(data: bytes, texts: bytes) -> bytes:
    """A PNG file in memory with text chunks before its end."""
    return data[: -len(_END)] + texts + _END if data.endswith(_END) else data


def add_texts_to_png_file(path: Path, texts: bytes) -> None:
    """Write text chunks before the end of a PNG file on disk."""
    with path.open("r+b") as file:
        file.seek(-len(_END), os.SEEK_END)
        if file.read() == _END:
            file.seek(-len(_END), os.SEEK_END)
            file.write(texts + _END)


def _texts_of(file: BinaryIO) -> bytes:
    if file.read(len(_SIGNATURE)) != _SIGNATURE:
        return b""
    texts = []
    while len(header := file.read(8)) == 8:
        length, kind = struct.unpack(">I4s", header)
        if kind == b"IEND":
            break
        if kind not in _KINDS:
            file.seek(length + 4, os.SEEK_CUR)
            continue
        rest = file.read(length + 4)
        content, checksum = rest[:-4], rest[-4:]
        if len(rest) < length + 4 or zlib.crc32(kind + content) != int.from_bytes(checksum, "big"):
            break
        if not content.startswith(_NOT_TEXTS):
            texts.append(header + rest)
    return b"".join(texts)
