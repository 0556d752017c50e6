"""Two-dimensional arrays too large for memory: one interface, kept in memory or in a file.

Shapes are (H, W, C), row by row, channels last, so that a row of a tile is one contiguous read.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np

from enlcn.errors import UserError

_STRIP_PIXELS = 1 << 20
NewPlane = Callable[[int, int, int, np.dtype], "Plane"]  # height, width, channels, type


class Plane(Protocol):
    """Anything from which tiles are read and into which they are written."""

    height: int
    width: int
    channels: int

    def read(self, top: int, bottom: int, left: int, right: int) -> np.ndarray:
        """Rows top..bottom, columns left..right, as a new array (h, w, C)."""

    def write(self, top: int, left: int, tile: np.ndarray) -> None:
        """Put a tile (h, w, C) with its first pixel at row top, column left."""


def strips(plane: Plane) -> Iterator[tuple[int, int]]:
    """First row and end of strips from top to bottom, of about a megapixel each."""
    rows = max(1, _STRIP_PIXELS // plane.width)
    for top in range(0, plane.height, rows):
        yield top, min(top + rows, plane.height)


class MemoryPlane:
    """A plane held in an array (H, W, C)."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self.height, self.width, self.channels = array.shape

    def read(self, top: int, bottom: int, left: int, right: int) -> np.ndarray:
        """Rows top..bottom, columns left..right, as a new array (h, w, C)."""
        return self.array[top:bottom, left:right].copy()

    def write(self, top: int, left: int, tile: np.ndarray) -> None:
        """Put a tile (h, w, C) with its first pixel at row top, column left."""
        self.array[top : top + tile.shape[0], left : left + tile.shape[1]] = tile


def in_memory(height: int, width: int, channels: int, dtype: np.dtype) -> MemoryPlane:
    """A new plane (H, W, C) in memory, its content undefined."""
    return MemoryPlane(np.empty((height, width, channels), dtype))


class FilePlane:
    """A plane in a file, read and written with pread and pwrite: mapped pages would count as resident memory."""

    def __init__(self, handle: int, shape: tuple[int, int, int], dtype: np.dtype, offset: int = 0):
        self.height, self.width, self.channels = shape
        self.dtype = dtype
        self.handle = handle
        self._offset = offset
        self._pixel = self.channels * dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Size of the whole plane."""
        return self.height * self.width * self._pixel

    def read(self, top: int, bottom: int, left: int, right: int) -> np.ndarray:
        """Rows top..bottom, columns left..right, as a new array (h, w, C)."""
        tile = np.empty((bottom - top, right - left, self.channels), self.dtype)
        for row in range(bottom - top):
            self._transfer(os.preadv, tile[row], top + row, left)
        return tile

    def write(self, top: int, left: int, tile: np.ndarray) -> None:
        """Put a tile (h, w, C) with its first pixel at row top, column left."""
        tile = np.ascontiguousarray(tile, self.dtype)
        for row in range(tile.shape[0]):
            self._transfer(os.pwritev, tile[row], top + row, left)

    def _transfer(self, call: Callable[..., int], pixels: np.ndarray, row: int, column: int) -> None:
        buffer = pixels.reshape(-1).view(np.uint8).data
        position = self._offset + (row * self.width + column) * self._pixel
        while buffer:  # the kernel may move less than it was asked to
            moved = call(self.handle, [buffer], position)
            if moved <= 0:
                raise OSError(f"scratch file ends at byte {position}")
            buffer, position = buffer[moved:], position + moved


class Scratch(AbstractContextManager["Scratch"]):
    """Room for planes: in memory, or past the budget in nameless files that vanish with the process.

    Args:
        budget: bytes that planes may take in memory.
        folder: where files go; the system's folder for temporary files if None.
    """

    def __init__(self, budget: int, folder: Path | None = None):
        self.folder = folder or Path(tempfile.gettempdir())
        self.disk_used = 0
        self._budget = budget
        self.handles: list[int] = []

    def plane(self, height: int, width: int, channels: int, dtype: np.dtype) -> MemoryPlane | FilePlane:
        """A new plane (H, W, C), its content undefined."""
        nbytes = height * width * channels * dtype.itemsize
        if nbytes <= self._budget:
            self._budget -= nbytes
            return in_memory(height, width, channels, dtype)
        require_disk(self.folder, nbytes)
        handle = self._open()
        if hasattr(os, "posix_fallocate"):  # what fills the disk meanwhile cannot take this room
            os.posix_fallocate(handle, 0, nbytes)
        else:
            os.ftruncate(handle, nbytes)
        self.disk_used += nbytes
        return FilePlane(handle, (height, width, channels), dtype)

    def _open(self) -> int:
        handle, name = tempfile.mkstemp(prefix="enlcn-scratch-", dir=self.folder)
        Path(name).unlink()  # nothing is left behind, however the process ends
        self.handles.append(handle)
        return handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self.handles:
            os.close(handle)
        self.handles.clear()


def require_disk(folder: Path, nbytes: int) -> None:
    """An error before the work starts where `folder` has no room for `nbytes`."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if nbytes > free:
        raise UserError(
            f"{folder}: {nbytes / 2**30:.1f} GiB of scratch space needed, {free / 2**30:.1f} GiB free; "
            "choose another folder with --scratch or raise --memory-limit"
        )
