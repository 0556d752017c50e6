"""Files that users name: absent ones are told at once; what is written is complete, and replaces nothing unasked."""

import errno
import io
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from enlcn.errors import UserError

# In the name of every temporary file, followed by the process that writes it: processes are known by number on their
# own host alone.
_MARK = f".enlcn-{re.sub(r'[^A-Za-z0-9]', '', socket.gethostname())}-"
_LONGEST_STEM = 100  # bytes of a file's name that stand in other names made of it; systems take 255 in all
# Errors of writing to a file that is open already; Python names no file in them.
_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


# Of several pictures, it is told once.
SKIP_ADVICE = "; pass --overwrite to replace it, or --skip-existing to leave it"


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


def refuse_to_overwrite(path: Path, overwrite: bool, *, can_skip: bool = False) -> None:
    """An error if `path` exists and may not be replaced; call it before the work, not after.

    `can_skip`: the program has an option to leave it as it is.
    """
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that is too long
        raise _unwritable(path, error) from error
    if is_folder:
        raise UserError(f"{path}: is a folder; give a file name")
    if os.path.lexists(path) and not overwrite:  # a link to nothing is something, too
        raise UserError(f"{path}: exists already" + (SKIP_ADVICE if can_skip else "; pass --overwrite to replace it"))


def check_writable(path: Path, *, overwrite: bool = False) -> None:
    """As `refuse_to_overwrite`, and an error if no file can be put at `path`; call it before work that takes long."""
    refuse_to_overwrite(path, overwrite)
    check_folder(path.parent, path)


def check_folder(folder: Path, told: Path | None = None) -> None:
    """An error, naming `told` or the folder, if no files can be put there. It is tried out; nothing is left behind."""
    # No folder is made for it: another process may be about to use that, and must not find it gone.
    there = next(each for each in (folder, *folder.absolute().parents) if os.path.lexists(each))
    if not there.is_dir():
        raise _unwritable(told or folder, NotADirectoryError())
    _new_file(there, "check", "", told or folder).unlink()


def make_folder(folder: Path, told: Path | None = None) -> None:
    """Make a folder and those above it where they are missing; an error names `told`, or the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(told or folder, error) from error


@contextmanager
def atomic_write(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path beside `path`; what is written there takes its place when the block ends well.

    The folder is made where it is missing. The temporary file keeps the suffix, so that writers that go by it work.

    Raises:
        UserError: it exists already or cannot be written, for want of rights or room; an OSError is its cause then.
    """
    refuse_to_overwrite(path, overwrite)
    make_folder(path.parent, path)
    temporary = _new_file(path.parent, path.stem, path.suffix, path)
    try:
        yield temporary
        _flush_to_disk(temporary)
        temporary.chmod(0o666 & ~_UMASK)
        temporary.replace(path)
        with suppress(OSError):  # some file systems have nothing to flush of a folder
            _flush_to_disk(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        # Other files may have been at work in the block, too.
        if str(error.filename) == str(temporary) or (error.filename is None and error.errno in _DISK_FAILURES):
            raise _unwritable(path, error) from error
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def patient_file(path: Path) -> Iterator[BinaryIO]:
    """`path`, opened for a writer that does not survive errors, as torch's: what goes wrong is raised at the end."""
    raw = _PatientFile(path, "wb")
    with io.BufferedWriter(cast(io.RawIOBase, raw)) as file:
        yield file
    if raw.error is not None:
        raise raw.error


class _PatientFile(io.FileIO):
    """Keeps the first error, and lets on that all after it is written."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


def shortened(name: str) -> str:
    """A name to begin a longer one with: cut where the whole would be more than file systems take.

    >>> shortened("photo"), len(shortened(80 * "写真"))
    ('photo', 33)
    """
    return os.fsencode(name)[:_LONGEST_STEM].decode(errors="ignore")


def new_folder(folder: Path, stem: str) -> Path:
    """An empty folder in `folder` that `remove_leftovers` knows as this process's. Raises OSError."""
    return Path(tempfile.mkdtemp(prefix=f".{shortened(stem)}{_MARK}{os.getpid()}-", dir=folder))


def remove_leftovers(folder: Path) -> None:
    """Delete temporary files and folders in `folder` whose process is gone: what a killed run left behind."""
    if not folder.is_dir():
        return
    for path in folder.glob(f".*{_MARK}*"):
        process = path.name.rpartition(_MARK)[2].partition("-")[0]
        if process.isdecimal() and not is_alive(int(process)):
            with suppress(OSError):  # gone by now, or another user's
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _new_file(folder: Path, stem: str, suffix: str, told: Path) -> Path:
    """An empty file that `remove_leftovers` knows as this process's."""
    try:
        prefix = f".{shortened(stem)}{_MARK}{os.getpid()}-"
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=folder)
    except OSError as error:
        raise _unwritable(told, error) from error
    os.close(handle)
    return Path(name)


def _unwritable(path: Path, error: OSError) -> UserError:
    """`path` cannot be written, and why: the system's "File exists" would not say that a folder was wanted."""
    blocking = next(
        (each for each in reversed((path, *path.parents)) if os.path.lexists(each) and not each.is_dir()), None
    )
    wants_folder = isinstance(error, FileExistsError | NotADirectoryError)
    what = "a link to nothing" if blocking and not blocking.exists() else "a file"
    reason = f"{blocking} is {what}, not a folder" if wants_folder and blocking else error.strerror or str(error)
    return UserError(f"{path}: cannot be written ({reason})")


def is_alive(process: int) -> bool:
    """Whether a process of this host lives, by its number."""
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
