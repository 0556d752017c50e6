"""Downloading a file over HTTP: bounded in size, gone on with where it broke off, complete or not there."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import IO, Any

from enlcn.errors import UserError
from enlcn.version import __version__

Progress = Callable[[int, int | None], None]  # bytes done, bytes in all where known

ATTEMPTS = 4
FIRST_PAUSE = 0.5  # seconds before the second attempt; each later pause is twice as long
TIMEOUT = 30.0  # seconds without a byte
_BLOCK = 1 << 18
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # worth another attempt


class _BrokeOff(Exception):
    """An attempt that may be gone on with or repeated."""


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """A redirect away from https would let anyone on the way change the file."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise UserError(f"{req.full_url}: redirects to {newurl}, which is not encrypted; refused")
        if not newurl.startswith(("https:", "http:")):
            raise UserError(f"{req.full_url}: redirects to {newurl}, which is not on the web; refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


_opener = urllib.request.build_opener(_NoDowngrade)


def fetch(url: str, target: Path, *, max_bytes: int, size: int | None = None, progress: Progress | None = None) -> None:
    """Download `url` into `target`.

    Args:
        url: http or https.
        target: replaced; hand in a temporary file, for what a failed download leaves there is of no use.
        max_bytes: refuse more.
        size: the bytes it must have, where known.
        progress: told how far it is.

    Raises:
        UserError: it cannot be had; says why, and what to do.
    """
    target.write_bytes(b"")
    validator: str | None = None  # names the version of the file that the bytes so far belong to
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
        try:
            with _open(url, target.stat().st_size, validator) as response:
                validator = response.headers.get("ETag") or response.headers.get("Last-Modified")
                _receive(url, response, target, max_bytes=max_bytes, size=size, progress=progress)
            return
        except (_BrokeOff, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
        except OSError as error:
            raise UserError(f"{target.parent}: cannot be written ({error.strerror or error})") from None
    raise UserError(f"{url}: the download broke off {ATTEMPTS} times ({reason}); try again later")


def _open(url: str, have: int, validator: str | None) -> Any:
    request = urllib.request.Request(url, headers={"User-Agent": f"enlcn/{__version__}", "Accept-Encoding": "identity"})
    if have and validator:
        request.add_header("Range", f"bytes={have}-")
        request.add_header("If-Range", validator)
    try:
        return _opener.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in _BUSY:
            raise _BrokeOff(f"the server answers {error.code} {error.reason}") from None
        advice = {
            404: "there is no such file; check the address",
            410: "the file is gone; look for another address",
            401: "the server wants a login; download it with a browser and give the file",
            403: "the server refuses; download it with a browser and give the file",
        }
        reason = (str(error.reason).splitlines() or [""])[0]  # of redirects without end it has three
        raise UserError(f"{url}: {error.code} {reason}: {advice.get(error.code, 'not to be had')}") from None
    except urllib.error.URLError as error:
        raise UserError(
            f"{url}: cannot be reached ({error.reason}); without a network give a file, or a model that is here "
            "(`enlcn models`)"
        ) from None
    except (ValueError, http.client.InvalidURL) as error:
        raise UserError(f"{url}: not an address that can be opened ({error})") from None


def _receive(
    url: str, response: Any, target: Path, *, max_bytes: int, size: int | None, progress: Progress | None
) -> None:
    done = target.stat().st_size if response.status == 206 else 0
    if done and not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
        target.write_bytes(b"")
        raise _BrokeOff("the server went on at another place")
    length = response.headers.get("Content-Length")
    total = done + int(length) if length and length.isdecimal() else None
    if size is not None and total is not None and total != size:
        raise UserError(f"{url}: has {total:,} bytes, expected {size:,}: not the file that is meant")
    if (total or 0) > max_bytes:
        raise UserError(f"{url}: has {total:,} bytes, more than the {max_bytes:,} that are taken; refused")
    with target.open("r+b") as file:
        file.truncate(done)
        file.seek(done)
        while block := _read(response):
            done += len(block)
            if done > max_bytes:
                raise UserError(f"{url}: sends more than the {max_bytes:,} bytes that are taken; refused")
            file.write(block)
            if progress:
                progress(done, total or size)
    expected = total if total is not None else size
    if expected is not None and done != expected:
        raise _BrokeOff(f"{done:,} of {expected:,} bytes came")


def _read(response: Any) -> bytes:
    try:
        return response.read(_BLOCK)
    except OSError as error:  # of the connection, encrypted or not; those of the file are another matter
        raise _BrokeOff(str(error) or type(error).__name__) from None
