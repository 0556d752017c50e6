"""Which runs are at work in a folder of results: two at once would do every picture twice.

Object stores have no locks. So a run leaves a mark with its host and process, and renews it while it lasts. One of a
process of this host that lives refuses another run; of processes elsewhere nobody can tell, so they are told.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from enlcn.cluster.storage import files_under, join, open_storage, read_bytes, write_bytes
from enlcn.errors import UserError
from enlcn.files import is_alive

log = logging.getLogger(__name__)
FOLDER = ".enlcn-cluster/running"
_RENEWED_AFTER, _FORGOTTEN_AFTER = 60.0, 3600.0  # seconds


@contextmanager
def at_work(out: str, run: str) -> Iterator[Callable[[], None]]:
    """The scope in which a run is at work in OUT; gives what the run calls from time to time, to renew its mark.

    Args:
        out: URL of the folder of results.
        run: a name that no other run has.
    """
    _refuse_others(out)
    mark = join(out, f"{FOLDER}/{run}.json")
    renewed = 0.0

    def renew() -> None:
        nonlocal renewed
        if (now := time.time()) - renewed >= _RENEWED_AFTER:
            facts = {"host": socket.gethostname(), "process": os.getpid(), "seen": now}
            write_bytes(mark, json.dumps(facts).encode(), retries=3)
            renewed = now

    renew()
    try:
        yield renew
    finally:
        filesystem, path = open_storage(mark)
        if filesystem.exists(path):
            filesystem.rm(path)


def others_at_work(out: str, run: str) -> bool:
    """Whether another run than this one is at work in OUT, as far as marks tell."""
    return any(not path.endswith(f"/{run}.json") for path in files_under(join(out, FOLDER)))


def _refuse_others(out: str) -> None:
    filesystem, _ = open_storage(out)
    for path in files_under(join(out, FOLDER)):
        facts = _read(str(filesystem.unstrip_protocol(path)))
        host, process, seen = str(facts.get("host", "")), int(facts.get("process", 0)), float(facts.get("seen", 0.0))
        is_here = host == socket.gethostname()
        if is_here and process != os.getpid() and is_alive(process):
            raise UserError(f"{out}: another run is at work here (process {process} of this machine); wait for its end")
        if host and not is_here and time.time() - seen < _FORGOTTEN_AFTER:
            log.warning("%s: a run on %s was at work here a short while ago, and may still be", out, host)
        elif filesystem.exists(path):  # killed, by now or on the way to this mark
            filesystem.rm(path)


def _read(url: str) -> dict[str, Any]:
    """The facts of a mark; none where it is gone by now, or was never whole."""
    try:
        facts = json.loads(read_bytes(url))
    except (FileNotFoundError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
