"""Segments on disk: each complete or not there.

They lie in a hidden folder beside the result, which belongs to one source and one run's settings. A segment is one line
of JSON (what it holds) and then the coded pictures, one after the other.
"""

import glob
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from enlcn.errors import UserError
from enlcn.files import atomic_write, remove_leftovers, shortened
from enlcn.video.encoding import Coded

_SAMPLE = 1 << 20
_END = "end.json"
_LOCK = "lock"


@dataclass(frozen=True)
class SegmentHeader:
    """What a segment holds.

    Attributes:
        frames: how many pictures.
        last_duration: ticks for which the last one is shown, in the source.
        extradata: parameter sets of the codec, in hexadecimal.
        packets: (pts, 1 for a key frame, bytes) of each.
    """

    frames: int
    last_duration: int
    extradata: str
    packets: list[tuple[int, int, int]]


def fingerprint(source: Path, settings: dict[str, Any]) -> str:
    """A name for this source under these settings: another one means that old segments are of no use."""
    status = source.stat()
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    with source.open("rb") as file:
        digest.update(file.read(_SAMPLE))
        file.seek(max(0, status.st_size - _SAMPLE))
        digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:16]


class Workspace:
    """The folder of a run's segments. One process at a time may have it."""

    def __init__(self, target: Path, key: str):
        self.target = target
        self.folder = target.with_name(f"{_prefix(target)}{key}")
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder / _LOCK)
        if self._lock is None:
            raise UserError(f"{self.target}: another process is at work on it")
        remove_leftovers(self.folder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is None:
            return
        if kind is not None and not self.path(0).exists():
            _delete(self.folder, self._lock)  # a run that came to nothing leaves nothing
        self._lock.close()
        self._lock = None

    def path(self, index: int) -> Path:
        """Where segment `index` lies."""
        return self.folder / f"{index:06d}.segment"

    def complete(self) -> int:
        """How many segments there are, from the first on without a gap."""
        count = 0
        while _is_whole(self.path(count)):
            count += 1
        return count

    @property
    def ended(self) -> bool:
        """Whether the last segment is the last of the video."""
        return (self.folder / _END).exists()

    def end(self, facts: dict[str, Any]) -> None:
        """Note that there will be no more segments, and what was met on the way."""
        with atomic_write(self.folder / _END, overwrite=True) as temporary:
            temporary.write_text(json.dumps(facts))

    def end_facts(self) -> dict[str, Any]:
        """What `end` noted."""
        facts: dict[str, Any] = json.loads((self.folder / _END).read_text())
        return facts

    def write(self, index: int, coded: list[Coded], extradata: bytes, last_duration: int) -> None:
        """Put a segment down, complete."""
        packets = [(item.pts, int(item.is_key), len(item.data)) for item in coded]
        header = SegmentHeader(len(coded), last_duration, extradata.hex(), packets)
        with atomic_write(self.path(index), overwrite=True) as temporary, temporary.open("wb") as file:
            file.write(json.dumps(asdict(header)).encode() + b"\n")
            file.writelines(item.data for item in coded)

    def remove(self) -> None:
        """Delete this folder, and those that runs with other settings left for the same result."""
        if self._lock is not None:
            _delete(self.folder, self._lock)
            self._lock = None
        for other in self.target.parent.glob(f"{glob.escape(_prefix(self.target))}*"):
            with suppress(OSError):  # whoever made it removes it at this moment
                if (lock := _locked(other / _LOCK)) is not None:
                    _delete(other, lock)


def _prefix(target: Path) -> str:
    """How the folders of a result's segments are called, whatever the settings."""
    name = shortened(target.name)
    if name != target.name:  # others may begin alike
        name += f"-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]}"
    return f".{name}.segments-"


def read_header(path: Path) -> SegmentHeader:
    """What a segment holds."""
    with path.open("rb") as file:
        return SegmentHeader(**json.loads(file.readline()))


def read_packets(path: Path) -> Iterator[Coded]:
    """The coded pictures of a segment."""
    with path.open("rb") as file:
        header = SegmentHeader(**json.loads(file.readline()))
        for pts, is_key, size in header.packets:
            yield Coded(pts, bool(is_key), file.read(size))


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            header = SegmentHeader(**json.loads(file.readline()))
            return path.stat().st_size == file.tell() + sum(size for _, _, size in header.packets)
    except (OSError, ValueError, TypeError):
        return False


def _delete(folder: Path, lock: IO[str]) -> None:
    """Delete a folder while its lock is held, so that nobody begins in it meanwhile, and close the lock."""
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()
    if sys.platform == "win32":  # where a file that is open stays
        shutil.rmtree(folder, ignore_errors=True)


def _locked(path: Path) -> IO[str] | None:
    """The file, locked until it is closed or its process ends; None where another has it."""
    file = path.open("w")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # no such locks on Windows
        pass
    except OSError:
        file.close()
        return None
    return file
