"""Training images on disk -> memory: found, decoded once in parallel, cached, laid out as flat buffers.

An image set is a folder (walked recursively, DIV2K's layout included), a tar file, or a folder of tar shards. LR is
MATLAB's resize of HR, itself cropped to a multiple of the scale. All pixels lie one after the other, image by image
and row by row, three bytes each: lr (P, 3) and hr (s^2 P, 3), so that HR starts at s^2 times LR's offset.
"""

import hashlib
import io
import json
import logging
import os
import re
import shutil
import tarfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import torch
from torch import Tensor

from enlcn.cache_folder import cache_folder
from enlcn.data.image_formats import SUFFIXES
from enlcn.data.resize import imresize
from enlcn.errors import UserError
from enlcn.files import new_folder, refuse_absent, remove_leftovers

log = logging.getLogger(__name__)
CACHE_VERSION = 2
# Names of folders and tars below the given one that are kept out of training, and validated on.
_HELD_OUT = re.compile(r"(^|_)val(id|idation)?([^a-z]|$)", re.IGNORECASE)
_LOW_RESOLUTION = re.compile(r"(^|_)LR(_|$)", re.IGNORECASE)
Part = Literal["train", "held-out", "all"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ImageFile:
    """An encoded image: `size` bytes at `offset` of the file `path`, which may be a tar."""

    name: str
    path: Path
    offset: int
    size: int

    def read(self) -> bytes:
        """The encoded bytes."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@dataclass(frozen=True)
class PackedImages:
    """A decoded set.

    Attributes:
        scale: s.
        lr, hr: pixels (P, 3) and (s^2 P, 3), uint8, mapped from the cache: processes share them.
        heights, widths: of each LR image (I,), int64.
        offsets: its first pixel in `lr` (I,), int64.
        names: of each image.
        skipped: "name: reason" for each file left out.
        key: changes with the files' sizes and times, the scale and the version of this program.
    """

    scale: int
    lr: Tensor
    hr: Tensor
    heights: Tensor
    widths: Tensor
    offsets: Tensor
    names: tuple[str, ...]
    skipped: tuple[str, ...]
    key: str


def find_images(source: Path, part: Part = "train") -> list[ImageFile]:
    """All images of a folder or tar, sorted by name; a name without the part's images gives an empty list.

    Folders and tars called val..., valid..., or ..._valid_... below `source` are the "held-out" part, the rest is
    "train". Folders of low-resolution images (LR_bicubic, DIV2K_train_LR_bicubic) are never taken.
    """
    if source.is_file():
        return _tar_members(source, source.parent) if part != "held-out" else []
    refuse_absent(source, "folder or tar of training images")
    found: list[ImageFile] = []
    for path in sorted(source.rglob("*")):
        places = path.relative_to(source).parts
        folders = places if path.suffix == ".tar" else places[:-1]
        held_out = any(_HELD_OUT.search(place) for place in folders)
        if any(_LOW_RESOLUTION.search(place) for place in folders) or any(p.startswith(".") for p in places):
            continue
        if (part == "train" and held_out) or (part == "held-out" and not held_out):
            continue
        if path.suffix == ".tar":
            found += _tar_members(path, source)
        elif path.suffix.lower() in SUFFIXES and path.is_file():
            found.append(ImageFile(path.relative_to(source).as_posix(), path, 0, path.stat().st_size))
    return found


def decode(image: ImageFile) -> np.ndarray:
    """The pixels (H, W, 3), uint8; grey becomes RGB, transparency is dropped.

    Not by `load_image`: libvips is read by one thread at a time, while Pillow lets all cores decode at once, and what
    that reader cares for besides (orientation, profiles, 16 bits) training does not need.
    """
    from PIL import Image

    with Image.open(io.BytesIO(image.read())) as opened:
        if opened.mode.startswith("I"):  # grey of 16 bits, which `convert` would cut off at 255
            grey = (np.asarray(opened).astype(np.int64).clip(0, 65535) + 128) // 257
            return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=2)
        return np.array(opened.convert("RGB"))


def crop_to_multiple(hr: np.ndarray, scale: int) -> np.ndarray:
    """Drop rows and columns at the bottom and right until both sides divide by `scale`."""
    height, width = hr.shape[:2]
    return hr[: height - height % scale, : width - width % scale]


def _cores() -> int:
    """How many cores this process may use; macOS cannot say which, only how many there are."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def load_packed(
    files: Sequence[ImageFile], scale: int, cache: Path, *, workers: int | None = None, progress: Progress | None = None
) -> PackedImages:
    """Decode `files` in `workers` threads (all cores unless told), or take them from the cache.

    Args:
        files: what `find_images` gave.
        scale: s.
        cache: folder for decoded sets; 3 (1 + 1/s^2) bytes per HR pixel.
        workers: Pillow and numpy release the interpreter lock, so threads fill the cores.
        progress: called with (done, total) after each image.
    """
    if not files:
        raise UserError(f"there are no images to train on; expected {', '.join(SUFFIXES)}, loose or in tars")
    key = _key(files, scale)
    folder = cache / key
    packed = _read_cached(folder, scale, key)
    if packed is None:
        packed = _build(folder, files, scale, workers or _cores(), progress)
    for reason in packed.skipped:
        log.warning("skipped %s", reason)
    if not packed.names:
        raise UserError(f"none of the {len(files)} images could be used; the first: {packed.skipped[0]}")
    return packed


def default_cache() -> Path:
    """Where decoded images are kept unless told otherwise."""
    return cache_folder() / "training"


def _tar_members(path: Path, root: Path) -> list[ImageFile]:
    prefix = path.relative_to(root).as_posix()
    if path.suffix.lower() in SUFFIXES:
        raise UserError(f"{path}: is one image; give the folder that holds it")
    try:
        with tarfile.open(path, "r:") as tar:
            members = [m for m in tar if m.isfile() and Path(m.name).suffix.lower() in SUFFIXES]
    except (tarfile.TarError, OSError) as error:
        raise UserError(f"{path}: not a readable, uncompressed tar ({error})") from None
    return [ImageFile(f"{prefix}/{m.name}", path, m.offset_data, m.size) for m in members]


def _key(files: Sequence[ImageFile], scale: int) -> str:
    digest = hashlib.sha256(f"{CACHE_VERSION} {scale}".encode())
    times = {path: path.stat().st_mtime_ns for path in {file.path for file in files}}
    for file in files:
        digest.update(f"\0{file.name}\0{file.offset}\0{file.size}\0{times[file.path]}".encode())
    return digest.hexdigest()[:32]


def _decode_pair(file: ImageFile, scale: int) -> tuple[np.ndarray, np.ndarray] | str:
    """(lr, hr), or why the file cannot be used."""
    try:
        hr = crop_to_multiple(decode(file), scale)
    # Pillow's readers let through whatever Python raised in them.
    except Exception as error:
        told = str(error).splitlines()
        reason = told[0] if told and "object at 0x" not in told[0] else "not a readable image"
        return f"{file.name}: {reason}"
    if 0 in hr.shape:
        return f"{file.name}: smaller than {scale} pixels"
    return imresize(hr, 1 / scale), hr


def _decoded_in_order(
    files: Sequence[ImageFile], scale: int, workers: int
) -> Iterator[tuple[np.ndarray, np.ndarray] | str]:
    """Pairs in the order of `files`, with only a few decoded ahead."""
    waiting: deque[Future[tuple[np.ndarray, np.ndarray] | str]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for file in files:
            waiting.append(pool.submit(_decode_pair, file, scale))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _build(
    folder: Path, files: Sequence[ImageFile], scale: int, workers: int, progress: Progress | None
) -> PackedImages:
    """Decode into a temporary folder that takes the name `folder` when it is complete."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder.parent)
        unfinished = new_folder(folder.parent, "unfinished")
    except OSError as error:
        raise UserError(f"{folder.parent}: the cache cannot be written ({error.strerror}); choose another") from None
    try:
        with (unfinished / "lr").open("wb") as lr_file, (unfinished / "hr").open("wb") as hr_file:
            index = _write_pixels(files, scale, workers, progress, lr_file, hr_file)
        (unfinished / "index.json").write_text(json.dumps(index))
        packed = _read_cached(unfinished, scale, folder.name)  # mapped: stays readable whatever becomes of the names
        if _read_cached(folder, scale, folder.name) is None:  # else another process was faster
            shutil.rmtree(folder, ignore_errors=True)  # only ever a damaged one
            unfinished.rename(folder)
    except OSError as error:
        packed = _read_cached(folder, scale, folder.name)
        if packed is None:
            raise UserError(f"{folder}: the cache cannot be written ({error.strerror})") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    assert packed is not None
    return packed


def _write_pixels(
    files: Sequence[ImageFile],
    scale: int,
    workers: int,
    progress: Progress | None,
    lr_file: BinaryIO,
    hr_file: BinaryIO,
) -> dict[str, list[object]]:
    index: dict[str, list[object]] = {"names": [], "heights": [], "widths": [], "skipped": []}
    for done, (file, pair) in enumerate(zip(files, _decoded_in_order(files, scale, workers), strict=True), start=1):
        if isinstance(pair, str):
            index["skipped"].append(pair)
        else:
            lr, hr = pair
            lr_file.write(lr.tobytes())
            hr_file.write(hr.tobytes())
            index["names"].append(file.name)
            index["heights"].append(lr.shape[0])
            index["widths"].append(lr.shape[1])
        if progress is not None:
            progress(done, len(files))
    return index


def _read_cached(folder: Path, scale: int, key: str) -> PackedImages | None:
    """What a cache folder holds; None where it is absent or damaged."""
    try:
        index = json.loads((folder / "index.json").read_text())
        heights, widths = (torch.tensor(index[name], dtype=torch.int64) for name in ("heights", "widths"))
        ends = (heights * widths).cumsum(0)
        num_pixels = int(ends[-1]) if len(ends) else 0
        lr = _mapped(folder / "lr", 3 * num_pixels)
        hr = _mapped(folder / "hr", 3 * num_pixels * scale**2)
    except (OSError, ValueError, KeyError):
        return None
    names, skipped = tuple(index["names"]), tuple(index["skipped"])
    return PackedImages(scale, lr, hr, heights, widths, ends - heights * widths, names, skipped, key)


def _mapped(path: Path, num_bytes: int) -> Tensor:
    """A file's bytes as (P, 3) without reading them: the system shares its pages between processes."""
    if path.stat().st_size != num_bytes:
        raise ValueError(f"{path} is not complete")
    if num_bytes == 0:
        return torch.empty(0, 3, dtype=torch.uint8)
    return torch.from_file(str(path), shared=False, size=num_bytes, dtype=torch.uint8).view(-1, 3)
