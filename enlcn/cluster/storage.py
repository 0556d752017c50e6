"""Files anywhere that fsspec reaches: listed, read, and written so that they are complete or not there."""

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from enlcn.errors import MissingExtraError, UserError
from enlcn.files import atomic_write, remove_leftovers

Result = TypeVar("Result")
# Errors that no moment will change.
_LASTING = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
# One request makes the whole object visible, or nothing.
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory"}
_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
}


def open_storage(url: str) -> tuple[Any, str]:
    """The file system of a URL or plain path, and the path within it, without `..` where it is local."""
    try:
        import fsspec
    except ImportError:
        raise MissingExtraError("cluster work", "cluster") from None
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        protocol = url.partition("://")[0]
        package = _PACKAGES.get(protocol)
        advice = f"pip install {package}" if package else str(error).splitlines()[0]
        raise UserError(f"{url}: {protocol}:// needs another package here and on every worker: {advice}") from None
    except (ValueError, OSError) as error:
        raise UserError(f"{url}: {(str(error).splitlines() or [type(error).__name__])[0]}") from None
    path = str(path)
    if is_local(filesystem) and ".." in path.split("/"):
        path = os.path.realpath(path)  # after a link, `..` is not the folder before it
    return filesystem, path


def absolute(url: str) -> str:
    """The same place as a full URL: workers have other working folders."""
    filesystem, path = open_storage(url)
    return str(filesystem.unstrip_protocol(path)).rstrip("/")


def is_local(filesystem: Any) -> bool:
    """Whether paths are paths of this machine."""
    return "file" in _protocols(filesystem)


def read_bytes(url: str, retries: int = 0) -> bytes:
    """All bytes of a file."""
    filesystem, path = open_storage(url)
    data: bytes = with_retries(lambda: filesystem.cat_file(path), retries)
    return data


def write_bytes(url: str, data: bytes, retries: int = 0) -> None:
    """Put a file there as a whole, over whatever was there: by one request, or under another name and then moved."""
    filesystem, path = open_storage(url)

    def write() -> None:
        if is_local(filesystem):
            with atomic_write(Path(path), overwrite=True) as temporary:
                temporary.write_bytes(data)
        elif _OBJECT_STORES & set(_protocols(filesystem)):
            filesystem.pipe_file(path, data)
        else:
            folder, _, name = path.rpartition("/")
            filesystem.makedirs(folder, exist_ok=True)
            other = f"{folder}/.{name}.{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
            try:
                filesystem.pipe_file(other, data)
                filesystem.mv(other, path)
            except BaseException:
                if filesystem.exists(other):
                    filesystem.rm(other)
                raise

    with_retries(write, retries)


def remove_leftovers_beside(urls: Iterable[str]) -> None:
    """Delete what killed processes of this host left half written in the folders of these files, if local."""
    for folder in {url.rpartition("/")[0] for url in urls}:
        filesystem, path = open_storage(folder)
        if is_local(filesystem):
            remove_leftovers(Path(path))


def with_retries(action: Callable[[], Result], retries: int) -> Result:
    """What `action` gives; storage that fails for a moment is asked again, after 1, 2, 4 … seconds."""
    for attempt in range(retries + 1):
        try:
            return action()
        except (OSError, UserError) as error:
            cause = error.__cause__ if isinstance(error, UserError) else error  # what `atomic_write` tells users of
            if attempt == retries or not isinstance(cause, OSError) or isinstance(cause, _LASTING):
                raise
            time.sleep(2**attempt)
    raise AssertionError("unreachable")


@contextmanager
def told_in_one_line(url: str) -> Iterator[None]:
    """A scope whose errors, of whichever storage, become one line for the user."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # every storage has errors of its own: no rights, no such bucket, no network
        told = (str(error).splitlines() or [""])[0]
        raise UserError(f"{url}: cannot be used ({type(error).__name__}: {told})") from None


def files_under(url: str) -> dict[str, int]:
    """Path -> bytes of every file below a folder; empty where there is no such folder."""
    filesystem, path = open_storage(url)
    filesystem.invalidate_cache()  # others write there too
    try:
        found: dict[str, Any] = filesystem.find(path, detail=True)
    except FileNotFoundError:
        return {}
    return {name: int(entry.get("size") or 0) for name, entry in found.items() if entry.get("type") == "file"}


def join(url: str, relative: str) -> str:
    """A path below a URL."""
    return f"{url.rstrip('/')}/{relative}"


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)
