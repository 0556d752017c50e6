"""A real server on a free port, in a process of its own, with the smallest network."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image

TINY = "untrained:enlcn-tiny"
PALACE = Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"


class Server:
    """`enlcn serve` as users start it."""

    def __init__(self, *arguments: str, model: str = TINY):
        for module in ("fastapi", "uvicorn", "python_multipart", "httpx"):
            pytest.importorskip(module, reason=f"needs the serve and dev extras ({module})")
        import httpx

        command = [
            sys.executable,
            "-m",
            "enlcn",
            "serve",
            "--port",
            "0",
            "--model",
            model,
            "--device",
            "cpu",
            *arguments,
        ]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        self.greeting = self.process.stderr.readline()
        found = re.search(r"http://\S+/", self.greeting)
        assert found, self.greeting + self.process.stderr.read()
        self.url = found[0].rstrip("/")
        self.client = httpx.Client(base_url=self.url, timeout=60)
        while self.client.get("/readyz").status_code != 200:
            time.sleep(0.05)

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def stop(self, seconds: float = 30) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stderr.close()


@pytest.fixture(scope="session")
def server():
    started = Server("--queue-length", "200", "--queue-per-client", "200")
    yield started
    started.close()


@pytest.fixture
def start():
    """Start servers with settings of their own; all are gone afterwards."""
    started = []

    def make(*arguments: str, **options: str) -> Server:
        started.append(Server(*arguments, **options))
        return started[-1]

    yield make
    for one in started:
        one.close()


@pytest.fixture(scope="session")
def photo() -> bytes:
    """A small real photo as PNG."""
    return encode_image(Image(load_image(PALACE).pixels[:40, :56]), "png")


def picture(seed: int, height: int = 12, width: int = 16) -> bytes:
    """A picture unlike any other."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    return encode_image(Image(pixels), "png")
