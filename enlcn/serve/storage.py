"""Uploads and results while they are needed: nameless files with one limit for all, gone with the process."""

import os
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

CHUNK = 2**18


class StorageFullError(Exception):
    """What is to be kept does not fit."""


class BlobGoneError(Exception):
    """What is to be read was given back before."""


class Storage:
    """Counts the bytes of all blobs and refuses more than `limit`."""

    def __init__(self, limit: int):
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def blob(self, data: bytes = b"") -> "Blob":
        """A new blob that holds `data`."""
        blob = Blob(self)
        if data:
            try:
                blob.write(data)
            except BaseException:
                blob.close()
                raise
        return blob

    def take(self, nbytes: int) -> None:
        """Count `nbytes` more (or fewer, where negative)."""
        with self._lock:
            if nbytes > 0 and self.used + nbytes > self.limit:
                raise StorageFullError
            self.used += nbytes


class Blob:
    """Bytes in a file that has no name: no client can choose where it lies, nothing is left behind."""

    def __init__(self, storage: Storage):
        self._storage = storage
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed with the blob)
        self._lock = threading.Lock()
        self._readers = 0
        self._unwanted = False
        self.size = 0

    def write(self, data: bytes) -> None:
        """Append."""
        self._storage.take(len(data))
        self.size += len(data)
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:  # the disk itself is full
            raise StorageFullError from error

    def read(self) -> bytes:
        """All of it; BlobGoneError where it was given back before."""
        return b"".join(self.chunks())

    def chunks(self) -> Generator[bytes, None, None]:
        """All of it, piece by piece; several readers may do so at once, and all get to the end."""
        with self.held():
            position = 0
            while part := os.pread(self._file.fileno(), CHUNK, position):
                position += len(part)
                yield part

    @contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile the bytes stay, and count; BlobGoneError where they were given back before."""
        with self._lock:
            if self._file.closed:
                raise BlobGoneError
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1
            if self._unwanted:
                self.close()

    def close(self) -> None:
        """Give the room back, at once or when the last reader is done."""
        with self._lock:
            self._unwanted = True
            if not self._readers and not self._file.closed:
                self._file.close()
                self._storage.take(-self.size)
