"""Memory that tensors let go of is kept for the next ones.

A map of a picture takes tens of megabytes and lives for a layer. glibc gives pieces of that size back to the system at
once, which fills every page of the next one with zeros: of the time of a network on a CPU up to 40 %. Other C libraries
are left alone, and so is glibc where the user has set it.
"""

import ctypes
import os
from collections.abc import Mapping
from functools import cache

# Parameters of mallopt, from malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_NEVER = -1
_LARGEST_KEPT = 1 << 30  # bytes of one piece

_is_kept = False
_given_back = 0  # bytes that are free, but take no memory


class _Usage(ctypes.Structure):
    """What mallinfo2 tells; `free` is what was let go of and kept."""

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
    settings = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _LARGEST_KEPT), (_TRIM_THRESHOLD, _NEVER))
    _is_kept = all(libc.mallopt(parameter, value) for parameter, value in settings)
    return _is_kept


def kept_bytes() -> int:
    """How much is kept, as far as the library tells; to the system it is in use."""
    return max(0, _free_bytes() - _given_back)


def give_back() -> None:
    """Give it back after all, as before a long wait."""
    global _given_back
    libc = _glibc()
    if _is_kept and libc is not None:
        libc.malloc_trim(0)
        _given_back = _free_bytes()


def _free_bytes() -> int:
    """What was let go of, whether it still takes memory or not."""
    libc = _glibc()
    if not _is_kept or libc is None or not hasattr(libc, "mallinfo2"):  # from glibc 2.33 on
        return 0
    libc.mallinfo2.restype = _Usage
    return int(libc.mallinfo2().free)


@cache
def _glibc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
