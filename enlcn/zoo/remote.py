"""Weights at an address: downloaded once into the cache, checked, and found there afterwards without a network.

An address ends in .safetensors, or in .json for a manifest whose parts lie beside it; `#sha256=...` after it says what
the file there must be. Pickles are not taken: loading one can run what it holds.
"""

import hashlib
import json
import logging
import re
import tempfile
import uuid
from dataclasses import asdict
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from enlcn.cache_folder import cache_folder
from enlcn.errors import UserError
from enlcn.file_parts import Digest, SplitFile, describe, is_intact, join
from enlcn.files import atomic_write
from enlcn.zoo import manifest
from enlcn.zoo.cache import cached_model, cached_part, with_folder
from enlcn.zoo.download import Progress, fetch
from enlcn.zoo.manifest import ShippedModel

MAX_BYTES = 4 * 2**30
MAX_MANIFEST_BYTES = 4 * 2**20
_LONGEST_STEM = 60  # of a name in the cache, even where every character takes four bytes
_PICKLES = (".pt", ".pth", ".ckpt", ".bin", ".pkl")
log = logging.getLogger(__name__)


def from_url(url: str, progress: Progress | None = None, *, refresh: bool = False) -> Path:
    """The file of an address, from the cache where it was downloaded before.

    Args:
        url: http, https or file.
        progress: told of the bytes downloaded.
        refresh: download it although it is in the cache.
    """
    address, wanted = _parse(url)
    if address.startswith("file:"):
        return _local_file(address, wanted)
    record = cache_folder() / "addresses" / f"{hashlib.sha256(address.encode()).hexdigest()[:24]}.json"
    if not refresh and (path := _recorded(record, wanted)) is not None:
        return path
    if urlsplit(address).path.endswith(".json"):
        digest, path = _fetch_manifest(address, wanted, progress)
    else:
        digest, path = _fetch_file(address, wanted, progress)
    # For people who look into the cache; what follows ? may be a key to the server.
    told = address.partition("?")[0]
    values = {"address": told, "sha256": digest.sha256, "file": asdict(describe(path))}
    with atomic_write(with_folder(record), overwrite=True) as temporary:
        temporary.write_text(json.dumps(values, indent=2) + "\n")
    return path


def fetch_parts(model: ShippedModel, address: str, progress: Progress | None = None) -> Path:
    """Download the parts that lie beside the manifest at `address`, join them in the cache, drop the parts."""
    target = cached_model(model.file.whole)
    if model.size > MAX_BYTES:
        raise UserError(
            f"{address}: describes {model.size:,} bytes, more than the {MAX_BYTES:,} that are taken; refused"
        )
    parts = model.file.parts or (model.file.whole,)
    before = 0
    try:
        for part in parts:
            _fetch_part(part, urljoin(address, quote(part.name)), _shifted(progress, before, model.size))
            before += part.size
        join(SplitFile(model.file.whole, parts), cached_part, with_folder(target), overwrite=True)
    except (UserError, FileNotFoundError):
        # Another process that fetched the same may have joined the parts and removed them meanwhile.
        if not (target.is_file() and is_intact(target, model.file.whole)):
            raise
    for part in parts:
        cached_part(part).unlink(missing_ok=True)
    return target


def _fetch_part(part: Digest, source: str, progress: Progress | None) -> None:
    path = with_folder(cached_part(part))
    if path.is_file() and is_intact(path, part):  # an interrupted download leaves those that are complete
        return
    with atomic_write(path, overwrite=True) as temporary:
        fetch(source, temporary, max_bytes=part.size, size=part.size, progress=progress)
        if (found := describe(temporary).sha256) != part.sha256:
            raise _mismatch(source, found, part.sha256)


def fetch_model(address: str, *, sha256: str | None = None) -> ShippedModel:
    """Read the manifest at `address`; `sha256` is what the manifest itself must have."""
    with tempfile.TemporaryDirectory(prefix="enlcn-") as folder:
        path = Path(folder) / "manifest.json"
        fetch(address, path, max_bytes=MAX_MANIFEST_BYTES)
        text = path.read_bytes()
    if sha256 is not None and (found := hashlib.sha256(text).hexdigest()) != sha256:
        raise _mismatch(address, found, sha256)
    return manifest.parse_one(text, address)


def _fetch_manifest(address: str, wanted: str | None, progress: Progress | None) -> tuple[Digest, Path]:
    model = fetch_model(address, sha256=wanted)
    path = cached_model(model.file.whole)
    if not (path.is_file() and is_intact(path, model.file.whole)):
        path = fetch_parts(model, address, progress)
    # An address is asked for by the digest of what lies there: the manifest's, where one was given.
    return Digest(model.file.whole.name, model.size, wanted or model.sha256), path


def _fetch_file(address: str, wanted: str | None, progress: Progress | None) -> tuple[Digest, Path]:
    stem = re.sub(r"[^\w.-]+", "_", unquote(Path(urlsplit(address).path).name).removesuffix(".safetensors")).strip("._")
    name = f"{stem[:_LONGEST_STEM] or 'model'}.safetensors"
    scratch = with_folder(cache_folder() / "models" / f"incoming-{uuid.uuid4().hex}")  # several may fetch it at a time
    with atomic_write(scratch, overwrite=True) as temporary:
        fetch(address, temporary, max_bytes=MAX_BYTES, progress=progress)
        found = describe(temporary)
        if wanted is not None and found.sha256 != wanted:
            raise _mismatch(address, found.sha256, wanted)
        _require_safetensors(temporary, address)
    digest = Digest(name, found.size, found.sha256)
    target = cached_model(digest)
    scratch.replace(target)
    if wanted is None:
        log.info(
            "%s: nothing said what it must be; to have it checked write #sha256=%s after it", address, found.sha256
        )
    return digest, target


def _recorded(record: Path, wanted: str | None) -> Path | None:
    """The file that an earlier download left, if it is what is wanted and still as it was."""
    try:
        values = json.loads(record.read_text())
        file = Digest(**values["file"])
        known = values["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    path = cache_folder() / "models" / file.name
    if wanted not in (None, known) or not path.is_file():
        return None
    if not is_intact(path, file):
        log.warning("%s: damaged (its SHA-256 is no longer what it was); downloading it again", path)
        return None
    return path


def _local_file(address: str, wanted: str | None) -> Path:
    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost"):
        raise UserError(f"{address}: after file:// comes a full path, as in file:///home/me/w.safetensors")
    path = Path(url2pathname(parts.path))
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if wanted is not None and (found := describe(path).sha256) != wanted:
        raise _mismatch(str(path), found, wanted)
    return path


def _parse(url: str) -> tuple[str, str | None]:
    """(address, SHA-256 wanted) of an address with or without #sha256=..."""
    try:
        address, fragment = urldefrag(url)
        parts = urlsplit(address)
    except ValueError as error:
        raise UserError(f"{url}: not an address that can be opened ({error})") from None
    if "@" in parts.netloc:
        raise UserError(
            f"{parts.scheme}://...@{parts.netloc.rpartition('@')[2]}: an address with a password in it is not taken; "
            "download it with a browser and give the file"
        )
    wanted = None
    if fragment:
        found = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", fragment)
        if found is None:
            raise UserError(f"{url}: after # comes sha256= and 64 hexadecimal digits, nothing else")
        wanted = found[1].lower()
    suffix = Path(parts.path).suffix.lower()
    if suffix in _PICKLES:
        raise UserError(
            f"{address}: {suffix} files are not loaded from addresses, as they can hold programs; make sure where it "
            "comes from, and give the file"
        )
    return address, wanted


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Tells of one part as of so many bytes of the whole."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def _require_safetensors(path: Path, address: str) -> None:
    """The first bytes are the length of a JSON header: a web page, say, must not end up in the cache as weights."""
    with path.open("rb") as file:
        start = file.read(9)
    length = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:] != b"{" or length > path.stat().st_size - 8:
        raise UserError(f"{address}: what lies there is no safetensors file; check the address")


def _mismatch(where: str, found: str, wanted: str) -> UserError:
    return UserError(
        f"{where}: its SHA-256 is {found[:12]}..., expected {wanted[:12]}...: damaged, or not the file that is meant; "
        "nothing was kept"
    )
