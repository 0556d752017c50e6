"""In the cache folder: weights that were downloaded, or joined from parts, each under its name and SHA-256."""

import os
from pathlib import Path

from enlcn.cache_folder import CACHE_VARIABLE, cache_folder
from enlcn.errors import UserError
from enlcn.file_parts import Digest
from enlcn.files import remove_leftovers


def cached_model(file: Digest) -> Path:
    """Where a whole file lies, or would: the digest is in its name, so that another version never takes its place."""
    stem, suffix = file.name.rsplit(".", 1)
    return cache_folder() / "models" / f"{stem}-{file.sha256[:12]}.{suffix}"


def cached_part(part: Digest) -> Path:
    """Where a downloaded part waits for the others."""
    return cache_folder() / "parts" / f"{part.sha256}.part"


def with_folder(path: Path) -> Path:
    """`path`, with its folder made and what killed processes left there removed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(13, "permission denied")
    except OSError as error:
        raise UserError(
            f"{path.parent}: cannot be written ({error.strerror}); name another folder with {CACHE_VARIABLE}"
        ) from None
    remove_leftovers(path.parent)
    return path
