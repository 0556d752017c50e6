"""The manifest: one row per picture in OUT/manifest.jsonl, kept while the run goes on, the memory of a resumed one.

Object stores cannot append, so rows gather in small parts below OUT/.enlcn-cluster until the run ends.
"""

import json
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from enlcn.cluster.attempts import FOLDER as ATTEMPTS
from enlcn.cluster.presence import others_at_work
from enlcn.cluster.storage import files_under, join, open_storage, read_bytes, write_bytes
from enlcn.errors import UserError

NAME = "manifest.jsonl"
_FOLDER = ".enlcn-cluster"
_SETTINGS = "settings.json"
_SHORTEST, _LONGEST = 1.0, 60.0


@dataclass(frozen=True)
class Row:
    """What became of one picture.

    Attributes:
        input, output: URLs.
        status: "done" or "failed".
        error: why it failed.
        width, height: of the input; out_width, out_height: of the result.
        bytes, sha256: of the result's file.
        seconds: from reading to the written file.
        worker: host and process that did it.
    """

    input: str
    output: str
    status: str
    error: str = ""
    width: int = 0
    height: int = 0
    out_width: int = 0
    out_height: int = 0
    bytes: int = 0
    sha256: str = ""
    seconds: float = 0.0
    worker: str = ""


class Manifest:
    """The rows of a folder of results, those of earlier runs and those of this one."""

    def __init__(self, out: str):
        self.out = out
        self.rows: dict[str, Row] = {}
        self._new: list[Row] = []
        self.run = uuid.uuid4().hex[:8]
        self._found: set[str] = set()
        self._parts = 0
        self._started = self._flushed = time.monotonic()

    def open(self, settings: dict[str, Any], *, overwrite: bool) -> bool:
        """Read what is there; returns whether this goes on with a run of the same settings."""
        there = self._read_settings()
        if overwrite or there is None:
            if overwrite:  # rows of other settings must not outlive them: a run that goes on would believe them
                filesystem, path = open_storage(join(self.out, NAME))
                if filesystem.exists(path):
                    filesystem.rm(path)
                self._remove(self._all_but_settings())
            self.rows = {} if overwrite else self._read_rows()
            write_bytes(self._path(_SETTINGS), json.dumps(settings, sort_keys=True).encode())
            return False
        self.rows = self._read_rows()
        if there != settings and not self.rows:  # a run that came to nothing
            write_bytes(self._path(_SETTINGS), json.dumps(settings, sort_keys=True).encode())
            return False
        if there != settings:
            changed = ", ".join(sorted(key for key in settings if there.get(key) != settings[key]))
            raise UserError(f"{self.out}: made with another {changed}; pass --overwrite, or choose another --out")
        self._remove(files_under(join(self.out, ATTEMPTS)))
        self._found = set(self._parts_on_disk())
        return True

    def add(self, row: Row) -> None:
        """Take a row. What has gathered is written with a row that comes a second, or in long runs a minute, later."""
        self.rows[row.output] = row
        self._new.append(row)
        now = time.monotonic()
        if now - self._flushed >= min(_LONGEST, _SHORTEST + (now - self._started) / 60):
            self.flush()

    def flush(self) -> None:
        """Write the rows that are not on disk yet."""
        if self._new:
            write_bytes(self._path(f"rows-{self.run}-{self._parts:06d}.jsonl"), _encoded(self._new), retries=3)
            self._parts += 1
            self._new = []
        self._flushed = time.monotonic()

    def close(self, order: Iterable[str]) -> str:
        """Put everything into one file, in the order of these outputs; returns its URL."""
        self.flush()
        # What another run has written meanwhile stays; of a picture that both did, the row is ours.
        self.rows = self._read_rows() | self.rows
        wanted = [self.rows[output] for output in order if output in self.rows]
        named = {row.output for row in wanted}
        others = [row for output, row in sorted(self.rows.items()) if output not in named]
        path = join(self.out, NAME)
        write_bytes(path, _encoded([*others, *wanted]), retries=3)
        self._remove(self._superseded())
        return path

    def is_done(self, output: str, sizes: dict[str, int]) -> bool:
        """Whether a picture needs nothing more: its row says so, and its file is there as long as the row says."""
        row = self.rows.get(output)
        return row is not None and row.status == "done" and sizes.get(open_storage(output)[1]) == row.bytes

    def _path(self, name: str) -> str:
        return join(self.out, f"{_FOLDER}/{name}")

    def _read_settings(self) -> dict[str, Any] | None:
        try:
            settings: dict[str, Any] = json.loads(read_bytes(self._path(_SETTINGS)))
        except FileNotFoundError:
            return None
        return settings

    def _read_rows(self) -> dict[str, Row]:
        filesystem, _ = open_storage(self.out)
        rows: dict[str, Row] = {}
        parts = (str(filesystem.unstrip_protocol(name)) for name in self._parts_on_disk())
        for url in (join(self.out, NAME), *parts):
            try:
                lines = read_bytes(url).decode().split("\n")  # not splitlines: names may hold other separators
            except FileNotFoundError:
                continue
            rows.update({row.output: row for row in map(_decoded, filter(None, lines))})
        return rows

    def _parts_on_disk(self) -> list[str]:
        # By their beginning: files that a killed run left on the way to their name have a dot before it.
        paths = files_under(join(self.out, _FOLDER))
        return sorted(path for path in paths if path.rpartition("/")[2].startswith("rows-"))

    def _superseded(self) -> Iterator[str]:
        """What the manifest holds now, and marks of pictures that killed workers: all of it where no other run is."""
        if not others_at_work(self.out, self.run):
            yield from self._all_but_settings()
            return
        for path in self._parts_on_disk():
            if path in self._found or path.rpartition("/")[2].startswith(f"rows-{self.run}-"):
                yield path

    def _all_but_settings(self) -> list[str]:
        kept = (f"/{_SETTINGS}", f"/{self.run}.json")
        return [path for path in files_under(join(self.out, _FOLDER)) if not path.endswith(kept)]

    def _remove(self, paths: Iterable[str]) -> None:
        filesystem, _ = open_storage(self.out)
        for path in paths:
            filesystem.rm(path)


def _encoded(rows: list[Row]) -> bytes:
    return b"".join(json.dumps(asdict(row), ensure_ascii=False).encode() + b"\n" for row in rows)


def _decoded(line: str) -> Row:
    known = {f.name for f in fields(Row)}
    return Row(**{key: value for key, value in json.loads(line).items() if key in known})
