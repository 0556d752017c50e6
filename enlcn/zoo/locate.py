"""From what users call a model to a file that holds it, checked: names, addresses, manifests, paths."""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from enlcn.cache_folder import cache_folder
from enlcn.errors import UserError
from enlcn.file_parts import is_intact, join
from enlcn.zoo import manifest, registry
from enlcn.zoo.cache import cached_model, with_folder
from enlcn.zoo.download import Progress
from enlcn.zoo.manifest import ShippedModel
from enlcn.zoo.progress import shown
from enlcn.zoo.remote import fetch_model, fetch_parts, from_url

log = logging.getLogger(__name__)


def locate(source: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """The file that `source` means; whatever has a known SHA-256 is checked against it.

    Args:
        source: a shipped model's name; an address (see LOADERS); a manifest.json, or the folder that holds it and its
            parts; any other path, which comes back as it is.
        progress: told of bytes downloaded; a bar is shown unless given.
    """
    name = os.fspath(source)
    for prefix, loader in LOADERS.items():
        if name.startswith(prefix):
            return loader(name, progress)
    if (model := registry.known().get(name)) is not None:
        return obtain(model, progress)
    return from_path(Path(name))


def is_remote(name: str) -> bool:
    """Whether a name is an address, to be fetched before anything is known of it."""
    return name.startswith(tuple(LOADERS))


def fetch_remote(names: Iterable[str]) -> None:
    """Bring what `names` hold of addresses into the cache, before the work begins and shows bars of its own."""
    for name in names:
        if is_remote(name):
            locate(name)


def from_path(path: Path) -> Path:
    """A manifest's parts joined in the cache; any other path as it is."""
    if (folder := manifest_folder(path)) is None:
        return path
    model = manifest.read_one(folder / registry.MANIFEST_NAME)
    return _from_cache(model) or _join(model, folder)


def manifest_folder(path: Path) -> Path | None:
    """The folder of a shipped model that `path` means, itself or by its manifest.json; None for all other paths."""
    folder = path.parent if path.name == registry.MANIFEST_NAME else path
    return folder if (folder / registry.MANIFEST_NAME).is_file() else None


def obtain(model: ShippedModel, progress: Progress | None = None) -> Path:
    """The checked file of a shipped model: in the package, in the cache, or joined from parts into the cache."""
    place = registry.find(model)
    if place is not None and place.kind == "bundled":
        if not is_intact(place.path, model.file.whole):
            raise UserError(
                f"{place.path}: damaged (its SHA-256 is not the one in {registry.LIST_NAME}); install the package again"
            )
        return place.path
    if (cached := _from_cache(model)) is not None:
        return cached
    place = registry.find(model)
    if place is not None:
        return _join(model, place.path)
    base = os.environ.get(registry.WEIGHTS_VARIABLE, "")
    if "://" in base:
        return pull_named(model, base, progress)
    alike = f"; for what is called so here give ./{model.name}" if Path(model.name).exists() else ""
    raise UserError(
        f"{model.name}: not on this computer; it lies in weights/{model.name} of a checkout: "
        f"`enlcn models pull {model.name} --from FOLDER_OR_URL` takes it from there{alike}"
    )


def pull_named(model: ShippedModel, base: str, progress: Progress | None = None) -> Path:
    """Take a known model from a folder or address `base`, which is its own or holds it by its name, into the cache."""
    if not is_remote(base):
        candidates = [manifest_folder(Path(base) / model.name), manifest_folder(Path(base))]
        if not (folders := [folder for folder in candidates if folder is not None]):
            raise UserError(f"{base}: holds neither {registry.MANIFEST_NAME} nor {model.name}/{registry.MANIFEST_NAME}")
        return _from_cache(model) or _join(model, folders[0])
    if not base.endswith(".json"):
        base = base.rstrip("/") + ("" if base.rstrip("/").endswith(f"/{model.name}") else f"/{model.name}")
        base += f"/{registry.MANIFEST_NAME}"
    if base.startswith("file:"):
        return pull_named(model, str(from_url(base)), progress)
    there = fetch_model(base)
    if there.sha256 != model.sha256:
        raise UserError(
            f"{base}: describes other weights (SHA-256 {there.sha256[:12]}...) than the {model.name} of this version "
            f"({model.sha256[:12]}...); to use those, load the address itself"
        )
    if (cached := _from_cache(model)) is not None:
        return cached
    with shown(progress, model.name) as told:
        return fetch_parts(model, base, told)


def _from_cache(model: ShippedModel) -> Path | None:
    path = cached_model(model.file.whole)
    if not path.is_file():
        return None
    if is_intact(path, model.file.whole):
        return path
    log.warning("%s: damaged (its SHA-256 is not the expected one); removed", path)
    path.unlink()
    return None


def _join(model: ShippedModel, folder: Path) -> Path:
    if not model.file.parts:
        path = folder / model.file.whole.name
        if not path.is_file():
            raise UserError(f"{path}: no such file, although {folder / registry.MANIFEST_NAME} names it")
        if not is_intact(path, model.file.whole):
            raise UserError(f"{path}: damaged (its SHA-256 is not the one in its manifest); fetch it again")
        return path
    target = with_folder(cached_model(model.file.whole))
    log.debug("%s: joining %d parts in %s", model.name, len(model.file.parts), cache_folder())
    join(model.file, lambda part: folder / part.name, target, overwrite=True)
    return target


def _from_web(url: str, progress: Progress | None) -> Path:
    with shown(progress, url) as told:
        return from_url(url, told)


def _from_file_address(url: str, progress: Progress | None) -> Path:
    return from_path(from_url(url))


def _from_hub(address: str, progress: Progress | None) -> Path:
    from enlcn.export.hub import download  # shows bars of its own

    return download(address)


# What an address begins with -> how it becomes a file. A loader downloads into the cache and checks what it gives.
LOADERS: dict[str, Callable[[str, Progress | None], Path]] = {
    "http://": _from_web,
    "https://": _from_web,
    "file://": _from_file_address,
    "hf:": _from_hub,
}
