"""Memory that tensors let go of is kept for the next ones.

A map of a picture takes tens of megabytes and lives for a layer. glibc gives pieces of that size back to the system at
once, which fills every page of the next one with zeros: of the time of a network on a CPU up to 40 %. Other C libraries
are left alone, and so is glibc where the user has set it.
"""

import ctypes
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

# Parameters of mallopt, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -3, -4, -8
_NEVER = -1
_LARGEST_KEPT = 1 << 30  # bytes of one piece
_MAPS = Path("/proc/self/smaps")

_is_kept = False


class _Usage(ctypes.Structure):
    """What mallinfo2 tells; `used` is what lives on the heap."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "chunks", "fast_chunks", "maps", "mapped", "most", "fast_free", "used", "free", "top")
    ]


def keep(environment: Mapping[str, str] = os.environ) -> bool:
    """From now on nothing is given back; whether that could be arranged. For programs, at their start.

    All threads share one heap: those of other threads are taken down again as soon as they are empty.
    """
    global _is_kept
    libc = _glibc()
    is_set = any(name.startswith("MALLOC_") for name in environment)
    if libc is None or is_set or "malloc" in environment.get("GLIBC_TUNABLES", ""):
        return False
    # Up to glibc 2.34 there is a limit to the threshold, but not to doing without maps.
    _is_kept = bool(
        hasattr(libc, "mallinfo2")  # since 2.33; without it nobody could tell what is kept
        and (libc.mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT) or libc.mallopt(_MMAP_MAX, 0))
        and libc.mallopt(_TRIM_THRESHOLD, _NEVER)
        and libc.mallopt(_ARENA_MAX, 1)
    )
    return _is_kept


def kept_bytes() -> int:
    """How much is kept: memory that the heap takes, to the system in use, and nothing lives in."""
    libc = _glibc()
    if not _is_kept or libc is None:
        return 0
    libc.mallinfo2.restype = _Usage
    return max(0, _heap_bytes() - int(libc.mallinfo2().used))


def give_back() -> None:
    """Give it back after all, as before a long wait; whether it was this module's doing that it is kept or not."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _heap_bytes() -> int:
    """The memory that the heap takes; pages given back, or never touched, are not in it."""
    try:
        with _MAPS.open() as lines:
            for line in lines:
                if line.endswith("[heap]\n"):
                    return next(int(each.split()[1]) << 10 for each in lines if each.startswith("Rss:"))
    except OSError:
        pass
    return 0


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if all(hasattr(library, name) for name in ("gnu_get_libc_version", "mallopt")) else None
