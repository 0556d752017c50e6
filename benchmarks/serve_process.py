"""What the benchmarks of the studio share: `enlcn serve` as a process, its memory, and how quickly it answers."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx


class Server:
    """A server on a free port of loopback, gone with the block."""

    def __init__(self, *arguments: str):
        self._command = [sys.executable, "-m", "enlcn", "serve", "--port", "0", *arguments]

    def __enter__(self) -> "Server":
        self.process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+/", line)
        if not found:
            raise SystemExit(line + self.process.stderr.read())
        self.url = found[0].rstrip("/")
        while httpx.get(f"{self.url}/readyz").status_code != 200:
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(60)

    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 2**20


def percentile(values: list[float], share: float) -> float:
    """The value that `share` of the values lie under."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
