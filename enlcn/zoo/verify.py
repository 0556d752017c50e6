"""Reading all files of a shipped model and comparing their SHA-256: in the package, the cache and folders of parts."""

from dataclasses import dataclass
from pathlib import Path

from enlcn.file_parts import Digest, is_intact
from enlcn.zoo import registry
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
    whole = model.file.whole
    candidates = (registry.PACKAGE_FOLDER / whole.name, cached_model(whole))
    files = [(path, whole) for path in candidates if path.is_file()]
    for folder in registry.weights_folders():
        if (folder / model.name / registry.MANIFEST_NAME).is_file():
            files += [(folder / model.name / part.name, part) for part in model.file.parts or (whole,)]
    return files
