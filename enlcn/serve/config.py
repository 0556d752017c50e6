"""What a server is told when it starts: where it listens, what it runs, and every limit. No torch here."""

import ipaddress
import math
import re
from dataclasses import dataclass

from enlcn.errors import UserError
from enlcn.upscaling.engine_options import PRECISIONS

MIB = 2**20
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_POSITIVE = (
    "max_upload_bytes",
    "max_pixels",
    "attention_pixels",
    "queue_length",
    "queue_per_client",
    "stored_bytes",
    "head_seconds",
    "upload_seconds",
    "job_seconds",
    "result_seconds",
    "abandon_seconds",
)
_NOT_NEGATIVE = ("direct_pixels", "shutdown_seconds")
_FLAGS = {"max_upload_bytes": "--max-upload", "stored_bytes": "--stored"}  # whose names are not the setting's own


@dataclass(frozen=True)
class ServeConfig:
    """Where to listen, what to run, how much to allow.

    Attributes:
        host: address to listen on; loopback unless told.
        port: 0 takes a free one.
        models: names, families, checkpoints or runs to offer; empty offers all that come with the package.
        devices: one inference runs at a time on each.
        precision: of requests that name none.
        token: what clients must send as `Authorization: Bearer`; None lets everyone in.
        allowed_hosts: names by which clients may call the server, beside its own; "*" allows any.
        client_header: a header of a trusted proxy that names the client; None takes the address.
        max_upload_bytes: of a request's body.
        max_pixels: of a picture, told by its header before it is decoded.
        direct_pixels: results up to so many pixels are answered at once, larger ones as a job.
        attention_pixels: the attention explorer shrinks larger pictures to this.
        queue_length: requests that may wait, all clients together.
        queue_per_client: requests of one client that may wait.
        stored_bytes: of all uploads and results together.
        head_seconds: to receive the head of a request; connections without one are closed.
        upload_seconds: to receive a body.
        job_seconds: to compute one result.
        result_seconds: for which a finished job can be fetched.
        abandon_seconds: after which a job that nobody asks about is cancelled.
        shutdown_seconds: that a running job gets to finish when the server stops.
        memory_limit: for one inference, as `enlcn upscale --memory-limit`.
    """

    host: str = "127.0.0.1"
    port: int = 0
    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("auto",)
    precision: str = "auto"
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    client_header: str | None = None
    max_upload_bytes: int = 64 * MIB
    max_pixels: int = 2**24
    direct_pixels: int = 2**24
    attention_pixels: int = 100_000
    queue_length: int = 64
    queue_per_client: int = 16
    stored_bytes: int = 4096 * MIB
    head_seconds: float = 15.0
    upload_seconds: float = 60.0
    job_seconds: float = 600.0
    result_seconds: float = 600.0
    abandon_seconds: float = 60.0
    shutdown_seconds: float = 30.0
    memory_limit: str | None = None

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UserError(f"precision is '{self.precision}'; choose from {', '.join(PRECISIONS)}")
        if not 0 <= self.port < 2**16:
            raise UserError(f"port is {self.port}; it must lie between 0 and 65535")
        if not self.devices:
            raise UserError("name at least one device")
        if self.token is not None and (not self.token.isascii() or not self.token or " " in self.token):
            raise UserError("the token must be printable ASCII without spaces")
        for name in (*_POSITIVE, *_NOT_NEGATIVE):
            _check_number(name, getattr(self, name))
        if self.stored_bytes < self.max_upload_bytes:
            least = f"{self.max_upload_bytes:,}"
            raise UserError(f"--stored is {self.stored_bytes:,} bytes; it must be at least --max-upload, {least}")
        for host in self.allowed_hosts:
            _check_host(host)

    @property
    def host_names(self) -> frozenset[str] | None:
        """Host headers that are answered; None answers all.

        A page elsewhere whose name is made to resolve to this machine must not reach a server without a token.
        """
        if "*" in self.allowed_hosts or (self.host not in LOOPBACK and not self.allowed_hosts):
            return None
        return frozenset(name.lower() for name in (self.host, *LOOPBACK, *self.allowed_hosts))


def _check_number(name: str, value: float) -> None:
    flag = _FLAGS.get(name, "--" + name.replace("_", "-"))
    if not math.isfinite(value):
        raise UserError(f"{flag} is {value}; it must be a number")
    if value < 0 or (value == 0 and name in _POSITIVE):
        raise UserError(f"{flag} is {value}; it must {'not be negative' if name in _NOT_NEGATIVE else 'be positive'}")


def _check_host(host: str) -> None:
    if host == "*" or _HOST_NAME.fullmatch(host):
        return
    try:
        ipaddress.ip_address(host)
    except ValueError:
        raise UserError(
            f"--allowed-host is '{host}'; give a name or an address alone, such as studio.example.org, or * for any"
        ) from None
