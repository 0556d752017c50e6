"""A server from its start to its graceful end."""

import asyncio
import logging
import math
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType

import uvicorn

from enlcn.interruption import EXIT_CODE
from enlcn.serve.app import create_app
from enlcn.serve.config import ServeConfig
from enlcn.serve.heads import Heads
from enlcn.serve.journal import Journal
from enlcn.serve.studio import Studio

_CONNECTIONS = 1024
_BACKLOG = 2048
_GRACE = 5.0  # seconds beyond those of running jobs: for them to notice, and for answers to be sent
_FETCHING = 10.0  # seconds after the last job for clients to fetch what was made
_TICK = 0.1


class _Server(uvicorn.Server):
    """uvicorn that goes on answering while jobs finish and their results are fetched; new work is refused meanwhile.

    A second signal asks running jobs to stop and waits for nobody; a third ends the program whatever runs.
    """

    def __init__(self, config: uvicorn.Config, studio: Studio, ready: Callable[[], None], tell: Callable[[str], None]):
        super().__init__(config)
        self._studio, self._ready, self._tell = studio, ready, tell
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signals = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1
        if self._signals == 2 and self._loop is not None:
            # By way of the loop: a lock of the studio's may be held by what the signal came upon.
            self._loop.call_soon_threadsafe(self._studio.stop_running)
        elif self._signals > 2:
            os._exit(EXIT_CODE)
        else:
            super().handle_exit(sig, frame)

    async def main_loop(self) -> None:
        await super().main_loop()
        studio = self._studio
        studio.drain()
        seconds = studio.seconds_to_finish
        if not studio.is_idle:
            self._tell(f"stopping: what runs has up to {seconds:.0f} s to finish; Ctrl-C again stops it now")
        # Whoever waits for a job that takes longer is told so, before connections are closed on it.
        asyncio.get_running_loop().call_later(seconds, studio.stop_running)
        await self._until(lambda: studio.is_idle, seconds + _GRACE)

        def is_over() -> bool:
            return self._signals > 1 or not studio.is_awaited(_FETCHING)

        if not is_over():
            self._tell(f"stopping: results can be fetched for {_FETCHING:.0f} s; Ctrl-C again stops it now")
            await self._until(is_over, _FETCHING)

    async def _until(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Go on serving until then, but so long at most."""
        end = time.monotonic() + seconds
        while not is_over() and time.monotonic() < end:
            await self.on_tick(0)  # which keeps the Date header
            await asyncio.sleep(_TICK)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._studio.drain()
        self.config.timeout_graceful_shutdown = math.ceil(self._seconds_for_answers)
        await super().shutdown(sockets)

    @property
    def _seconds_for_answers(self) -> float:
        """For answers that are being sent, and uploads that are refused at their end."""
        return _GRACE if self._signals > 1 else self._studio.seconds_to_finish + _GRACE


def run(
    config: ServeConfig,
    listener: socket.socket,
    ready: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda text: None,
    write: Callable[[str], None] | None = None,
) -> None:
    """Serve on a bound socket until a signal; jobs that run finish within their time, others are handed back.

    Args:
        config: all settings.
        listener: where to serve.
        ready: called when requests are taken.
        tell: told what is waited for at the end.
        write: given a line for each request and job; None keeps no log.
    """
    app = create_app(config, Journal(write))
    logging.getLogger("enlcn").debug("limits: %s", replace(config, token=None))
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # what clients send wrongly is told to them
    heads = Heads(config.head_seconds)
    server = _Server(
        uvicorn.Config(
            heads.around(app),
            http=heads.protocol(),
            ws="none",  # no route speaks it, and a connection that changes to it would be lost to the count of heads
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # who asks is told by the connection, or by the header of --client-header
            limit_concurrency=_CONNECTIONS,
            backlog=_BACKLOG,
            timeout_keep_alive=math.ceil(config.head_seconds),
        ),
        app.state.studio,
        ready,
        tell,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has ended in peace
        server.run(sockets=[listener])
