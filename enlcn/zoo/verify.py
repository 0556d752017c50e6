"""Reading all files of a shipped model and comparing their SHA-256: in the package, the cache and folders of parts."""

from dataclasses import dataclass
from pathlib import Path

from enlcn.file_parts import Digest, is_intact
from enlcn.zoo import manifest, registry
from enlcn.zoo.cache import cached_model
from enlcn.zoo.manifest import ShippedModel


@dataclass(frozen=True)
class Finding:
    """What was found: whether nothing is wrong, and in words."""

    intact: bool
    message: str


def check(model: ShippedModel) -> Finding:
    """Compare every file of `model` that is here; a model that is not here at all is not damaged."""
    files = _files(model)
    if not files:
        return Finding(True, "not here")
    for path, expected in files:
        if not path.is_file():
            return Finding(False, f"MISSING {path}")
        if not is_intact(path, expected):
            return Finding(False, f"DAMAGED {path} (its SHA-256 is not the expected one); fetch it again")
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    return Finding(True, f"intact ({count})")


def _files(model: ShippedModel) -> list[tuple[Path, Digest]]:
    """What there is of a model; what is shipped in parts is joined in the cache, not in the package."""
    whole = model.file.whole
    candidates = [cached_model(whole)]
    if not model.file.parts:
        candidates.append(registry.PACKAGE_FOLDER / whole.name)
    files = [(path, whole) for path in candidates if path.is_file()]
    for folder in registry.weights_folders():
        path = folder / model.name / registry.MANIFEST_NAME
        if path.is_file() and (there := manifest.read_one(path)).sha256 == model.sha256:  # else of another version
            files += [(path.parent / part.name, part) for part in there.file.parts or (there.file.whole,)]
    return files
