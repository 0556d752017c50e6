"""Files cut into parts that can be checked and joined again: weights for places that limit the size of a file."""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

from enlcn.errors import UserError
from enlcn.files import atomic_write, refuse_to_overwrite

_BLOCK = 1 << 20
_MANIFEST_SUFFIX = ".parts.json"


def split_file(path: Path, max_mib: float, *, overwrite: bool = False) -> Path:
    """Cut `path` into NAME.part-001, -002, ... of at most `max_mib` MiB beside it.

    Returns:
        The manifest NAME.parts.json: size and SHA-256 of the whole and of each part.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    limit = int(max_mib * 2**20)
    if limit < 1:
        raise UserError("a part must hold at least one byte")
    manifest = path.with_name(path.name + _MANIFEST_SUFFIX)
    refuse_to_overwrite(manifest, overwrite)
    parts = []
    with path.open("rb") as source:
        for number in range(-(-path.stat().st_size // limit)):
            part = path.with_name(f"{path.name}.part-{number + 1:03}")
            with atomic_write(part, overwrite=overwrite) as temporary, temporary.open("wb") as target:
                left = limit
                while left and (block := source.read(min(left, _BLOCK))):
                    target.write(block)
                    left -= len(block)
            parts.append(_described(part))
    with atomic_write(manifest, overwrite=overwrite) as temporary:
        temporary.write_text(json.dumps({**_described(path), "parts": parts}, indent=2) + "\n")
    return manifest


def join_parts(manifest: Path, target: Path | None = None, *, overwrite: bool = False) -> Path:
    """Put a split file together again and check it, part by part and as a whole.

    Args:
        manifest: what `split_file` returned; the parts lie beside it.
        target: where to write; the old name beside the manifest unless told.
        overwrite: replace an existing file.
    """
    try:
        whole = json.loads(manifest.read_text())
        name, parts = _safe_name(whole["name"]), [(_safe_name(part["name"]), part) for part in whole["parts"]]
    except OSError as error:
        raise UserError(f"{manifest}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{manifest}: not a manifest of parts") from None
    target = target or manifest.with_name(name)
    with atomic_write(target, overwrite=overwrite) as temporary:
        with temporary.open("wb") as joined:
            for part_name, part in parts:
                path = manifest.with_name(part_name)
                if not path.is_file():
                    raise UserError(f"{path}: this part is missing")
                if _described(path)["sha256"] != part["sha256"]:
                    raise UserError(f"{path}: this part is damaged (its SHA-256 differs from the manifest's)")
                for block in _blocks(path):
                    joined.write(block)
        if _described(temporary)["sha256"] != whole["sha256"]:
            raise UserError(f"{manifest}: the parts do not give the file that was split")
    return target


def _described(path: Path) -> dict[str, object]:
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    return {"name": path.name, "size": path.stat().st_size, "sha256": digest.hexdigest()}


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _safe_name(name: str) -> str:
    """A plain file name: a manifest must not reach into other folders."""
    if not re.fullmatch(r"[^/\\\0]+", name) or name in (".", ".."):
        raise ValueError(name)
    return name
