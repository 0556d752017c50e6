"""PyAV, imported when a video is met and not before."""

from typing import Any

from enlcn.errors import MissingExtraError


def pyav() -> Any:
    """The module `av`, or an error that names the extra which brings it, or a later one."""
    try:
        import av
    except ImportError:
        raise MissingExtraError("video", "video") from None
    if not hasattr(av.VideoStream, "set_display_matrix"):
        raise MissingExtraError(f"video (PyAV 18 or later, not {av.__version__})", "video")
    return av


def first_line(error: BaseException) -> str:
    """What a library's error says, on one line, without FFmpeg's number for it."""
    told = getattr(error, "strerror", None) or str(error)
    return (str(told).splitlines() or [type(error).__name__])[0]
