"""Connections that do not send the head of a request in time are closed: each holds one of the server's places.

uvicorn bounds neither those that send nothing nor those that send half a head. Its protocol is extended through
asyncio's own methods alone; that a head is whole is told by the application being called.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from enlcn.serve.sending import STALLED_SECONDS

Address = tuple[str, int]


class Heads:
    """Which connections owe the head of a request, and since when.

    Args:
        seconds: for a head to come, from the connection's start, the last answer's end, or the head's first byte.
    """

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._open: dict[Address, _Connection] = {}

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, which tells when a request begins and ends."""

        async def timed(scope: Scope, receive: Receive, send: Send) -> None:
            connection = self._open.get(tuple(scope.get("client") or ()))
            if connection is None:
                await app(scope, receive, send)
                return
            with connection.answering():
                await app(scope, receive, send)

        return timed

    def protocol(self) -> type[asyncio.Protocol]:
        """uvicorn's protocol, which tells when connections begin, end and bring something."""
        heads = self

        class Timed(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
            _heads: _Connection | None = None

            def connection_made(self, transport: Any) -> None:
                super().connection_made(transport)
                self._heads = heads._begin(transport)

            def data_received(self, data: bytes) -> None:
                if self._heads is not None:
                    self._heads.brings()
                super().data_received(data)

            def connection_lost(self, exc: Exception | None) -> None:
                heads._forget(self._heads)
                super().connection_lost(exc)

        return Timed

    def _begin(self, transport: asyncio.Transport) -> "_Connection | None":
        peer = transport.get_extra_info("peername")
        if peer is None:  # it has gone already
            return None
        connection = self._open[peer[:2]] = _Connection(transport, peer[:2], self._seconds)
        return connection

    def _forget(self, lost: "_Connection | None") -> None:
        if lost is not None:
            lost.expect(None)
            if self._open.get(lost.address) is lost:
                del self._open[lost.address]


class _Connection:
    """One connection: whether a request is being answered on it, and until when the next must be there."""

    def __init__(self, transport: asyncio.Transport, address: Address, seconds: float):
        self.address = address
        self._transport, self._seconds = transport, seconds
        self._loop = asyncio.get_running_loop()
        self._answering = 0
        self._has_begun = False
        self._timer: asyncio.TimerHandle | None = None
        self.expect(seconds)

    def expect(self, seconds: float | None) -> None:
        """Close it after so many seconds, or let it be."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self._loop.call_later(seconds, self._close)

    def brings(self) -> None:
        """Something came: the first bytes of a head, unless a request is being answered."""
        if not self._answering and not self._has_begun:
            self._has_begun = True
            self.expect(self._seconds)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A head was whole; what comes now is the request's body."""
        self._answering += 1
        self._has_begun = False
        self.expect(None)
        try:
            yield
        finally:
            self._answering -= 1
            if not self._answering and not self._transport.is_closing():
                self.expect(self._seconds)

    def _close(self) -> None:
        self._transport.close()  # after what is still to be sent, for which a client has as long as for any piece
        self._timer = self._loop.call_later(STALLED_SECONDS, self._transport.abort)
