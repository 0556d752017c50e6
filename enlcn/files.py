"""Files that users name: absent ones are told at once; what is written is complete, and replaces nothing unasked."""

import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enlcn.errors import UserError

# In the name of every temporary file, followed by the process that writes it: processes are known by number on their
# own host alone.
_MARK = f".enlcn-{re.sub(r'[^A-Za-z0-9]', '', socket.gethostname())}-"


def _read_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Read once: it can be read only by setting it, for all threads at once.
_UMASK = _read_umask()


def refuse_absent(path: Path, what: str = "file") -> None:
    """An error if nothing lies at `path`; the command line asks it first, since importing torch takes seconds."""
    if not path.exists():
        raise UserError(f"{path}: no such {what}")


def refuse_to_overwrite(path: Path, overwrite: bool) -> None:
    """An error if `path` exists and may not be replaced; call it before the work, not after."""
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give a file name")
    if path.exists() and not overwrite:
        raise UserError(f"{path}: exists already; pass --overwrite to replace it")


@contextmanager
def atomic_write(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path beside `path`; what is written there takes its place when the block ends well.

    The folder is made where it is missing. The temporary file keeps the suffix, so that writers that go by it work.
    """
    refuse_to_overwrite(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{path.stem}{_MARK}{os.getpid()}-"
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush_to_disk(temporary)
        temporary.chmod(0o666 & ~_UMASK)
        temporary.replace(path)
        _flush_to_disk(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files in `folder` whose process is gone: what a killed run left behind."""
    if not folder.is_dir():
        return
    for path in folder.glob(f".*{_MARK}*"):
        process = path.name.rpartition(_MARK)[2].partition("-")[0]
        if process.isdecimal() and not _is_alive(int(process)):
            path.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _flush_to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
