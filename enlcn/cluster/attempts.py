"""How often a picture was begun and its worker then died: so that one that always kills is given up.

Ray gives a dead worker's pictures to the worker that takes its place, for ever. A worker that knows itself to be such a
replacement leaves a mark before each picture and takes it away after; marks that stay are deaths.
"""

import hashlib

from enlcn.cluster.storage import join, open_storage, write_bytes
from enlcn.errors import UserError

FOLDER = ".enlcn-cluster/attempts"


class Attempts:
    """The marks below OUT.

    Args:
        out: URL of the folder of results.
        retries: how many deaths of replacements a picture may cause.
    """

    def __init__(self, out: str, retries: int):
        self._out, self._retries = out, retries

    def begin(self, source: str) -> None:
        """Leave a mark, or an error where there are too many."""
        filesystem, path = open_storage(self._url(source, "*"))
        filesystem.invalidate_cache()  # the dead wrote there
        marks = filesystem.glob(path)
        if marks and len(marks) >= self._retries:
            # The first death left no mark: that worker did not know of it.
            raise UserError(f"{source}: given up, {len(marks) + 1} workers died over it")
        write_bytes(self._url(source, str(len(marks))), b"")

    def finish(self, source: str) -> None:
        """Take the marks of a picture away: it is done."""
        filesystem, path = open_storage(self._url(source, "*"))
        for mark in filesystem.glob(path):
            filesystem.rm(mark)

    def _url(self, source: str, number: str) -> str:
        return join(self._out, f"{FOLDER}/{hashlib.sha256(source.encode()).hexdigest()[:16]}-{number}")
