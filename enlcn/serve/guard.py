"""Before every request: is it for us, may it come in; after it: headers that keep browsers strict, and the count."""

import hmac
import json
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from enlcn.serve.config import ServeConfig
from enlcn.serve.journal import Journal
from enlcn.serve.metrics import Metrics
from enlcn.serve.problems import PROBLEM_TYPE, Problem

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_OPEN_PATHS = ("/healthz", "/readyz", "/", "/openapi.json")
_OPEN_PREFIX = "/page/"


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, config: ServeConfig, metrics: Metrics, journal: Journal):
        self._app, self._config, self._metrics, self._journal = app, config, metrics, journal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status = 500

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check(scope)
        except Problem as problem:
            await _answer(problem, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.count("enlcn_requests_total", method=_known(scope["method"]), route=route, status=str(status))
            seconds = time.monotonic() - began
            self._metrics.observe("enlcn_request_seconds", seconds, route=route)
            self._journal.request(HTTPConnection(scope), self._config.client_header, status, seconds)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        names = self._config.host_names
        if names is not None and _host_name(host) not in names:
            raise Problem("forbidden-origin", "this server does not answer to that name; see --allowed-host")
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            raise Problem("forbidden-origin", "requests from pages of other hosts are not answered")
        token, path = self._config.token, scope["path"]
        if token is None or path in _OPEN_PATHS or path.startswith(_OPEN_PREFIX):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
            raise Problem("unauthorised", "the bearer token is missing or wrong", {"WWW-Authenticate": "Bearer"})


def _host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _netloc(origin: str) -> str | None:
    """Host and port of an Origin header; None where it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _known(method: str) -> str:
    return method if method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH") else "other"


async def _answer(problem: Problem, send: Send) -> None:
    body = json.dumps(problem.body()).encode()
    headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
