"""A server from its start to its graceful end."""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import uvicorn

from enlcn.serve.app import create_app
from enlcn.serve.config import ServeConfig
from enlcn.serve.studio import Studio

_CONNECTIONS = 1024
_BACKLOG = 2048
_GRACE = 5  # seconds beyond those of running jobs, for answers to be sent


class _Server(uvicorn.Server):
    """uvicorn that tells the studio of a signal at once: those who wait are answered before connections close."""

    def __init__(self, config: uvicorn.Config, studio: Studio, ready: Callable[[], None]):
        super().__init__(config)
        self._studio, self._ready = studio, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._studio.drain()
        # Whoever waits for a job that takes longer is told so, before connections are closed on it.
        asyncio.get_running_loop().call_later(self._studio.seconds_to_finish, self._studio.stop_running)
        await super().shutdown(sockets)


def run(config: ServeConfig, listener: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve on a bound socket until a signal; jobs that run finish within their time, others are handed back."""
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
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again after it has ended in peace
        server.run(sockets=[listener])
