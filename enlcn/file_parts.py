"""Files cut into parts that can be checked and joined again: weights for places that limit the size of a file."""

import glob
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from enlcn.errors import UserError
from enlcn.files import atomic_write, refuse_to_overwrite

_BLOCK = 1 << 20
_MANIFEST_SUFFIX = ".parts.json"


@dataclass(frozen=True)
class Digest:
    """A file's plain name, its bytes and its SHA-256 in hexadecimal."""

    name: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        # Manifests come from anywhere: a name must not reach into other folders.
        if not re.fullmatch(r"[^/\\\0]+", self.name) or self.name in (".", ".."):
            raise ValueError(f"'{self.name}' is not the name of a file")
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 0:
            raise ValueError(f"{self.name}: a size is a number of bytes")
        if not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            raise ValueError(f"{self.name}: a SHA-256 has 64 hexadecimal digits")


@dataclass(frozen=True)
class SplitFile:
    """A file and the parts it is stored as, in order; none where it is stored whole."""

    whole: Digest
    parts: tuple[Digest, ...] = ()

    def __post_init__(self) -> None:
        if self.parts and sum(part.size for part in self.parts) != self.whole.size:
            raise ValueError(f"{self.whole.name}: the parts do not add up to its size")


def to_plain(split: SplitFile) -> dict[str, Any]:
    """Plain data for JSON."""
    return {**asdict(split.whole), "parts": [asdict(part) for part in split.parts]}


def from_plain(values: dict[str, Any]) -> SplitFile:
    """The inverse of `to_plain`; a KeyError, TypeError or ValueError where it is not such data."""
    whole, *parts = (Digest(each["name"], each["size"], each["sha256"]) for each in (values, *values.get("parts", ())))
    return SplitFile(whole, tuple(parts))


def describe(path: Path) -> Digest:
    """Name, size and SHA-256 of a file."""
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    return Digest(path.name, path.stat().st_size, digest.hexdigest())


def is_intact(path: Path, expected: Digest) -> bool:
    """Whether a file has the size and SHA-256 expected, whatever its name; the size is asked first."""
    return path.stat().st_size == expected.size and describe(path).sha256 == expected.sha256


def cut(path: Path, max_mib: float, folder: Path, name: Callable[[int], str], *, overwrite: bool = False) -> SplitFile:
    """Cut `path` into parts of at most `max_mib` MiB in `folder`; `name` gives that of part 0, 1, ..."""
    limit = _bytes_a_part(path, max_mib)
    parts = []
    with path.open("rb") as source:
        for number in range(-(-path.stat().st_size // limit)):
            part = folder / name(number)
            with atomic_write(part, overwrite=overwrite) as temporary, temporary.open("wb") as target:
                left = limit
                while left and (block := source.read(min(left, _BLOCK))):
                    target.write(block)
                    left -= len(block)
            parts.append(describe(part))
    return SplitFile(describe(path), tuple(parts))


def join(split: SplitFile, find: Callable[[Digest], Path], target: Path, *, overwrite: bool = False) -> None:
    """Put the parts together in `target`, each and the whole checked; `find` says where a part lies."""
    with atomic_write(target, overwrite=overwrite) as temporary:
        with temporary.open("wb") as joined:
            for part in split.parts:
                path = find(part)
                if not path.is_file():
                    raise UserError(f"{path}: this part is missing")
                if not is_intact(path, part):
                    raise UserError(
                        f"{path}: this part is damaged (its SHA-256 differs from the manifest's); fetch it again"
                    )
                for block in _blocks(path):
                    joined.write(block)
        if not is_intact(temporary, split.whole):
            raise UserError(f"{target.name}: the parts do not give the file that was split")


def split_file(path: Path, max_mib: float, *, overwrite: bool = False) -> Path:
    """Cut `path` into NAME.part-001, -002, ... of at most `max_mib` MiB beside it.

    Returns:
        The manifest NAME.parts.json: size and SHA-256 of the whole and of each part.
    """
    _bytes_a_part(path, max_mib)
    manifest = path.with_name(path.name + _MANIFEST_SUFFIX)
    refuse_to_overwrite(manifest, overwrite)
    split = cut(path, max_mib, path.parent, lambda number: f"{path.name}.part-{number + 1:03}", overwrite=overwrite)
    with atomic_write(manifest, overwrite=overwrite) as temporary:
        temporary.write_text(json.dumps(to_plain(split), indent=2) + "\n")
    named = {part.name for part in split.parts}
    for other in path.parent.glob(f"{glob.escape(path.name)}.part-[0-9][0-9][0-9]"):
        if overwrite and other.name not in named:  # of an earlier cut, into more parts
            other.unlink()
    return manifest


def join_parts(manifest: Path, target: Path | None = None, *, overwrite: bool = False) -> Path:
    """Put a split file together again and check it, part by part and as a whole.

    Args:
        manifest: what `split_file` returned; the parts lie beside it.
        target: where to write; the old name beside the manifest unless told.
        overwrite: replace an existing file.
    """
    try:
        values = json.loads(manifest.read_text())
        split = from_plain(values.get("file", values))  # a shipped model's manifest describes its file under "file"
    except OSError as error:
        raise UserError(f"{manifest}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{manifest}: not a manifest of parts") from None
    target = target or manifest.with_name(split.whole.name)
    join(split, lambda part: manifest.with_name(part.name), target, overwrite=overwrite)
    return target


def _bytes_a_part(path: Path, max_mib: float) -> int:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if not math.isfinite(max_mib) or (limit := int(max_mib * 2**20)) < 1:
        raise UserError(f"parts of {max_mib} MiB: each must hold at least one byte")
    return limit


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
