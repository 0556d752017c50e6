"""A server from its start to its graceful end."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import FrameType

import uvicorn

from enlcn.interruption import EXIT_CODE
from enlcn.serve.app import create_app
from enlcn.serve.config import ServeConfig
from enlcn.serve.studio import Studio

_CONNECTIONS = 1024
_BACKLOG = 2048
_GRACE = 5  # seconds beyond those of running jobs, for answers to be sent


class _Server(uvicorn.Server):
    """uvicorn that tells the studio of a signal at once: those who wait are answered before connections close.

    A second signal asks running jobs to stop; a third ends the program whatever runs.
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._studio.drain()
        if not self._studio.is_idle:
            seconds = self._studio.seconds_to_finish
            self._tell(f"stopping: what runs has up to {seconds:.0f} s to finish; Ctrl-C again stops it now")
        # Whoever waits for a job that takes longer is told so, before connections are closed on it.
        asyncio.get_running_loop().call_later(self._studio.seconds_to_finish, self._studio.stop_running)
        await super().shutdown(sockets)


def run(
    config: ServeConfig,
    listener: socket.socket,
    ready: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve on a bound socket until a signal; jobs that run finish within their time, others are handed back.

    Args:
        config: all settings.
        listener: where to serve.
        ready: called when requests are taken.
        tell: told what is waited for at the end.
    """
    app = create_app(config)
    logging.getLogger("enlcn").debug("limits: %s", replace(config, token=None))
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # what clients send wrongly is told to them
    server = _Server(
        uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # who asks is told by the connection, or by the header of --client-header
            limit_concurrency=_CONNECTIONS,
            backlog=_BACKLOG,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=int(config.shutdown_seconds) + _GRACE,
        ),
        app.state.studio,
        ready,
        tell,
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has ended in peace
        server.run(sockets=[listener])
