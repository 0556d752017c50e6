"""What a server writes down of requests and jobs, where it is asked to: a line for each.

A job's id lets whoever knows it see and cancel the job, so only its first characters are written.
"""

import re
import time
from collections.abc import Callable

from starlette.requests import HTTPConnection

from enlcn.serve.clients import client_of
from enlcn.serve.jobs import Job

_SHOWN_OF_ID = 8
_JOB_IN_PATH = re.compile(rf"(?<=^/v1/jobs/)([^/]{{{_SHOWN_OF_ID}}})[^/]+")
_LONGEST = 200  # characters of what clients choose themselves


class Journal:
    """Writes nothing unless told how.

    Args:
        write: is given each line; from any thread.
    """

    def __init__(self, write: Callable[[str], None] | None = None):
        self._write = write

    def request(self, connection: HTTPConnection, client_header: str | None, status: int, seconds: float) -> None:
        """A request that was answered; without its query."""
        if self._write is not None:
            path = connection.scope.get("raw_path", b"").decode("latin-1").partition("?")[0]
            shown = _JOB_IN_PATH.sub(r"\1…", path)
            client = client_of(connection, client_header)
            self._line(client, connection.scope["method"], shown, str(status), f"{seconds:.3f} s")

    def job(self, job: Job) -> None:
        """A job that has ended."""
        if self._write is not None:
            size = job.facts.get("input", {})
            ran = 0.0 if job.started is None or job.finished is None else job.finished - job.started
            outcome = job.state.value if job.problem is None else f"{job.state.value} ({job.problem.kind})"
            pixels = f"{size.get('width', '?')}x{size.get('height', '?')}"
            model = str(job.facts.get("model", "?"))
            self._line(job.client, "job", job.id[:_SHOWN_OF_ID] + "…", pixels, model, f"{ran:.3f} s", outcome)

    def _line(self, *parts: str) -> None:
        assert self._write is not None
        text = " ".join(part[:_LONGEST] for part in (time.strftime("%Y-%m-%d %H:%M:%S"), *parts))
        self._write("".join(one if one.isprintable() else "?" for one in text))
