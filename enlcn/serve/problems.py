"""Everything that can go wrong with a request, as RFC 9457 problem details."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from enlcn.data.image import ImageError, TooManyPixelsError, UnsupportedImageError

PROBLEM_TYPE = "application/problem+json"
CATALOGUE_PATH = "/v1/problems"


@dataclass(frozen=True)
class Kind:
    """One kind of problem: its HTTP status, its title, and what a client can do about it."""

    status: int
    title: str
    advice: str


KINDS: dict[str, Kind] = {
    "bad-request": Kind(400, "The request cannot be read", "Send a file as multipart/form-data or as the raw body."),
    "unauthorised": Kind(401, "A token is needed", "Send 'Authorization: Bearer TOKEN'."),
    "forbidden-origin": Kind(403, "Not from here", "Call the server by its own name and from its own page."),
    "not-found": Kind(404, "Nothing is here", "See /openapi.json for what is."),
    "no-such-job": Kind(404, "No such job", "It may have expired or been deleted; send the picture again."),
    "method-not-allowed": Kind(405, "Not with this method", "See the Allow header."),
    "upload-too-slow": Kind(408, "The upload took too long", "Send a smaller picture or use a faster connection."),
    "not-finished": Kind(409, "The job has no result yet", "Ask again later, or follow its events."),
    "job-cancelled": Kind(410, "The job was cancelled", "Send the picture again."),
    "upload-too-large": Kind(413, "The upload has too many bytes", "See /v1/limits; send a smaller file."),
    "too-many-pixels": Kind(413, "The picture has too many pixels", "See /v1/limits; send a smaller picture."),
    "not-an-image": Kind(415, "Not a picture this server reads", "Send PNG, JPEG, WebP, AVIF, TIFF or BMP."),
    "damaged-image": Kind(422, "The picture is damaged", "Check the file; it ends early or holds invalid data."),
    "unsupported-image": Kind(
        422, "Pictures of this kind are not read", "Convert it to grey or RGB of 8 or 16 bits a channel."
    ),
    "unsuitable-format": Kind(
        422, "The format cannot hold the result", "Ask for another format, a background, or a smaller size."
    ),
    "invalid-parameters": Kind(422, "A parameter is wrong", "See 'errors' and /openapi.json."),
    "queue-full": Kind(429, "Too many requests are waiting", "Try again after the seconds in Retry-After."),
    "client-queue-full": Kind(429, "You have too many requests waiting", "Wait for one of them to finish."),
    "job-failed": Kind(500, "The job failed", "Try again; if it stays so, tell whoever runs this server."),
    "internal-error": Kind(500, "The server failed", "Try again; if it stays so, tell whoever runs this server."),
    "not-ready": Kind(503, "The server is not ready", "Try again after the seconds in Retry-After."),
    "shutting-down": Kind(503, "The server is stopping", "Send the picture again after Retry-After."),
    "storage-full": Kind(503, "The server has no room", "Try again after the seconds in Retry-After."),
    "out-of-memory": Kind(503, "The picture does not fit in memory", "Send a smaller picture, or ask for less."),
    "too-slow": Kind(504, "The job took too long", "Send a smaller picture or ask for a smaller scale."),
}
_BY_STATUS = {400: "bad-request", 404: "not-found", 405: "method-not-allowed"}


@dataclass
class Problem(Exception):
    """One occurrence: a kind, what happened this time, and headers that go with it."""

    kind: str
    detail: str
    headers: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def fresh(self) -> "Problem":
        """The same, never raised: one that was holds the frames it went through, and all they held."""
        return replace(self)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return KINDS[self.kind].status

    def body(self) -> dict[str, Any]:
        """The members of the JSON object."""
        known = KINDS[self.kind]
        return {
            "type": f"{CATALOGUE_PATH}#{self.kind}",
            "title": known.title,
            "status": known.status,
            "detail": self.detail,
            **self.extra,
        }


def of_image(error: ImageError) -> Problem:
    """The problem of a picture that cannot be read: whether the file is at fault, or what it holds."""
    kinds = {UnsupportedImageError: "unsupported-image", TooManyPixelsError: "too-many-pixels"}
    return Problem(kinds.get(type(error), "damaged-image"), str(error))


def retry_later(kind: str, detail: str, seconds: float) -> Problem:
    """A problem that time mends."""
    return Problem(kind, detail, {"Retry-After": str(max(1, round(seconds)))})


def from_status(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """The problem that an HTTP error of the framework stands for."""
    kind = _BY_STATUS.get(status, "bad-request" if status < 500 else "internal-error")
    return Problem(kind, detail, dict(headers or {}))
