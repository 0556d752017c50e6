"""Text subtitles in the form that a container takes: MP4 and Matroska share none."""

from typing import Any

from enlcn.video.pyav import pyav

# By FFmpeg's names. SRT is what players of Matroska files know best.
_FORMS = {"matroska": "srt", "mp4": "mov_text", "mov": "mov_text", "webm": "webvtt"}
_TEXTS = {"mov_text", "srt", "subrip", "webvtt", "text", "ass", "ssa"}


def text_form(codec: str, container: str) -> str | None:
    """The form that text subtitles take in a container that does not hold theirs; None where `codec` is no text.

    >>> text_form("mov_text", "matroska"), text_form("srt", "mp4"), text_form("dvd_subtitle", "mp4")
    ('srt', 'mov_text', None)
    """
    return _FORMS[container] if codec in _TEXTS else None


class SubtitleConverter:
    """Turns packets of one stream of subtitles into another form, by way of FFmpeg's own.

    Args:
        source: the stream that packets come from.
        container: the opened output.
        form: a name in FFmpeg.
    """

    def __init__(self, source: Any, container: Any, form: str):
        self._decoder = source.codec_context
        self.stream = container.add_stream(form)
        self.stream.time_base = source.time_base
        # The plainest style there is: FFmpeg's for MP4 would put a font around every line of SRT.
        plain = pyav().CodecContext.create("srt", "r")
        plain.open()
        self.stream.codec_context.subtitle_header = plain.subtitle_header

    def __call__(self, packet: Any) -> Any | None:
        """The same text at the same time; None for one that shows nothing.

        Raises:
            av.error.InvalidDataError: the packet is damaged.
        """
        found = self._decoder.decode2(packet)
        if found is None or not found.rects:
            return None
        converted = self.stream.codec_context.encode_subtitle(found)
        converted.pts, converted.dts, converted.duration = packet.pts, packet.dts, packet.duration
        converted.time_base = packet.time_base
        return converted
