"""A raw file of pixels as an uncompressed TIFF, made up while it is read.

libvips would map a raw file into memory, and mapped pages count as resident. It reads a TIFF through calls instead:
these serve a header that stands in no file, and the pixels right from the raw one.
"""

import os
import struct

import numpy as np

_STRIP_BYTES = 2**20
_SHORT, _LONG, _LONG8 = 3, 4, 16
_ENTRY_BYTES = 20


class RawAsTiff:
    """Answers `read` and `seek` as an open BigTIFF file would.

    Args:
        handle: an open file that begins with the pixels, (H, W, C) row by row, in this machine's byte order.
        shape: (H, W, C), C = 1 or 3.
        dtype: np.uint8 or np.uint16.
    """

    def __init__(self, handle: int, shape: tuple[int, int, int], dtype: np.dtype):
        self._handle = handle
        self._header = _header(shape, dtype)
        height, width, channels = shape
        self._size = len(self._header) + height * width * channels * dtype.itemsize
        self._position = 0

    def read(self, length: int) -> bytes:
        """The next bytes, at most `length`; none at the end."""
        start = self._position
        if start < len(self._header):
            data = self._header[start : start + length]
        else:
            length = min(length, self._size - start)
            data = os.pread(self._handle, length, start - len(self._header)) if length > 0 else b""
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int) -> int:
        """Move to a place as `io` counts them, and tell where that is."""
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = origin + offset
        return self._position


def _header(shape: tuple[int, int, int], dtype: np.dtype) -> bytes:
    """All of the file that comes before its pixels."""
    height, width, channels = shape
    row = width * channels * dtype.itemsize
    rows = max(1, min(height, _STRIP_BYTES // row))
    num_strips = -(-height // rows)
    fields = {
        256: (_LONG, [width]),
        257: (_LONG, [height]),
        258: (_SHORT, [8 * dtype.itemsize] * channels),
        259: (_SHORT, [1]),  # not compressed
        262: (_SHORT, [1 if channels == 1 else 2]),  # grey or RGB
        273: (_LONG8, [0] * num_strips),  # where strips begin; filled in below
        277: (_SHORT, [channels]),
        278: (_LONG, [rows]),
        279: (_LONG8, [row * min(rows, height - first) for first in range(0, height, rows)]),
        284: (_SHORT, [1]),  # channels beside each other
    }
    directory_end = 16 + 8 + len(fields) * _ENTRY_BYTES + 8
    header_size = directory_end + (2 * 8 * num_strips if num_strips > 1 else 0)
    fields[273] = (_LONG8, [header_size + row * first for first in range(0, height, rows)])

    order = "<" if np.little_endian else ">"
    directory, beyond = struct.pack(f"{order}Q", len(fields)), b""
    for tag, (kind, values) in sorted(fields.items()):
        packed = struct.pack(f"{order}{len(values)}{ {_SHORT: 'H', _LONG: 'I', _LONG8: 'Q'}[kind] }", *values)
        if len(packed) > 8:
            beyond += packed
            packed = struct.pack(f"{order}Q", directory_end + len(beyond) - len(packed))
        directory += struct.pack(f"{order}HHQ", tag, kind, len(values)) + packed.ljust(8, b"\0")
    mark = b"II" if np.little_endian else b"MM"
    return mark + struct.pack(f"{order}HHHQ", 43, 8, 0, 16) + directory + bytes(8) + beyond
