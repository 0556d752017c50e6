"""Which models are known, and where they lie: in the package, in a folder of weights, in the cache, or not here."""

import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from enlcn.errors import UserError
from enlcn.zoo import manifest
from enlcn.zoo.cache import cached_model
from enlcn.zoo.manifest import ShippedModel

log = logging.getLogger(__name__)
WEIGHTS_VARIABLE = "ENLCN_WEIGHTS"
LIST_NAME = "models.json"
MANIFEST_NAME = "manifest.json"
PACKAGE_FOLDER = Path(__file__).parents[1] / "weights"
_CHECKOUT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Place:
    """Where a model lies.

    Attributes:
        kind: "bundled" (in the package), "cache", or "weights" (a folder of parts, joined on first use).
        path: the file, or the folder of parts.
    """

    kind: str
    path: Path


def weights_folders() -> list[Path]:
    """Folders that may hold NAME/manifest.json and parts: what ENLCN_WEIGHTS names, then the checkout's weights/."""
    named = os.environ.get(WEIGHTS_VARIABLE, "")
    folders = [Path(named).expanduser()] if named and "://" not in named else []
    # Installed, the package lies among others, and a folder beside it called weights is somebody else's.
    return folders + ([_CHECKOUT / "weights"] if (_CHECKOUT / "pyproject.toml").is_file() else [])


def known() -> dict[str, ShippedModel]:
    """All models by name; what the package says of one goes before what lies in a folder of weights.

    There a manifest.json may also be somebody else's: it is told once and left out.
    """
    rows: dict[str, ShippedModel] = {}
    for folder in reversed(weights_folders()):
        for path in sorted(folder.glob(f"*/{MANIFEST_NAME}")):
            try:
                rows |= {row.name: row for row in manifest.read(path)}
            except UserError as error:
                _tell_once(f"{error}; left out")
    if (PACKAGE_FOLDER / LIST_NAME).is_file():
        rows |= {row.name: row for row in manifest.read(PACKAGE_FOLDER / LIST_NAME)}
    return dict(sorted(rows.items()))


@cache
def _tell_once(message: str) -> None:
    log.warning(message)


def find(model: ShippedModel) -> Place | None:
    """Where a model lies, by what is there alone; nothing is read."""
    bundled = PACKAGE_FOLDER / model.file.whole.name
    if not model.file.parts and bundled.is_file():
        return Place("bundled", bundled)
    cached = cached_model(model.file.whole)
    if cached.is_file():
        return Place("cache", cached)
    for folder in weights_folders():
        if (folder / model.name / MANIFEST_NAME).is_file():
            return Place("weights", folder / model.name)
    return None


def bundled() -> dict[str, Path]:
    """Name -> file of every network that comes with the package."""
    places = {name: find(model) for name, model in known().items()}
    return {name: place.path for name, place in places.items() if place is not None and place.kind == "bundled"}


def here() -> list[str]:
    """Names of the models that can be loaded without a network."""
    return [name for name, model in known().items() if find(model) is not None]
