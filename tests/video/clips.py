"""Clips made for tests: moving pictures, a tone, subtitles, with any timestamps, rotation and colour tags.

`python tests/video/clips.py clip.mp4` writes the clip of docs/video.md.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

PHOTO = Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"


@dataclass(frozen=True)
class Clip:
    """What a clip is made of; times are in ticks of `time_base`."""

    width: int = 128
    height: int = 72
    frames: int = 50
    rate: int = 25
    time_base: Fraction = Fraction(1, 12800)
    times: tuple[int, ...] | None = None
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    options: dict[str, str] = field(default_factory=lambda: {"crf": "10", "preset": "veryfast"})
    matrix: int = 1
    range: int = 1
    primaries: int = 1
    transfer: int = 1
    aspect: Fraction = Fraction(1)
    rotation: int | None = None
    audio: str | None = "aac"
    subtitles: str | None = "mov_text"
    texts: tuple[str, ...] | None = None
    metadata: dict[str, str] = field(default_factory=lambda: {"title": "a clip", "comment": "made for tests"})

    @property
    def pts(self) -> list[int]:
        step = round(1 / (self.rate * self.time_base))
        return list(self.times) if self.times is not None else [index * step for index in range(self.frames)]


def write_clip(path: Path, clip: Clip | None = None) -> Path:
    clip = clip or Clip()
    with av.open(str(path), "w") as container:
        container.metadata.update(clip.metadata)
        sizes = {"width": clip.width, "height": clip.height, "time_base": clip.time_base}
        video = container.add_stream(clip.codec, rate=clip.rate, options=clip.options, **sizes)
        context = video.codec_context
        context.pix_fmt, context.sample_aspect_ratio = clip.pixel_format, clip.aspect
        context.colorspace, context.color_range = clip.matrix, clip.range
        context.color_primaries, context.color_trc = clip.primaries, clip.transfer
        if clip.rotation is not None:
            video.set_display_rotation(clip.rotation)
        video.metadata["language"] = "eng"
        audio = container.add_stream(clip.audio, rate=48000) if clip.audio else None
        if audio is not None:
            audio.metadata["language"] = "deu"
        subtitles = container.add_stream(clip.subtitles) if clip.subtitles else None
        if subtitles is not None:
            subtitles.codec_context.subtitle_header = b"[Script Info]\n[Events]\nFormat: Text\n"
            subtitles.metadata["language"] = "fra"
            subtitles.time_base = Fraction(1, 1000)
        seconds = float((clip.pts[-1] + clip.pts[-1] - clip.pts[-2]) * clip.time_base)
        container.start_encoding()
        if subtitles is not None:
            _write_subtitles(container, subtitles, clip, seconds)
        for pixels, pts in zip(moving_pictures(clip), clip.pts, strict=True):
            rgb = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            rgb.colorspace, rgb.color_range = clip.matrix if clip.matrix != 2 else 6, clip.range or 1
            frame = rgb.reformat(format=clip.pixel_format)
            frame.pts, frame.time_base = pts, clip.time_base
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            _write_tone(container, audio, seconds)
    return path


def moving_pictures(clip: Clip):
    """A window that wanders over a photo, one pixel a frame, (H, W, 3)."""
    from PIL import Image

    photo = np.asarray(Image.open(PHOTO).convert("RGB"))
    for index in range(len(clip.pts)):
        left = index % (photo.shape[1] - clip.width)
        top = (index // 2) % (photo.shape[0] - clip.height)
        yield np.ascontiguousarray(photo[top : top + clip.height, left : left + clip.width])


def _write_tone(container, stream, seconds):
    size = stream.codec_context.frame_size or 1024
    for start in range(0, int(seconds * 48000), size):
        samples = np.sin(2 * np.pi * 440 * np.arange(start, start + size) / 48000).astype(np.float32) / 2
        frame = av.AudioFrame.from_ndarray(np.stack([samples, samples]), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, start, Fraction(1, 48000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def _write_subtitles(container, stream, clip, seconds):
    for index, said in enumerate(clip.texts or [f"second {index}" for index in range(int(seconds))]):
        text = said.encode()
        packet = av.Packet(len(text).to_bytes(2, "big") + text if clip.subtitles == "mov_text" else text)
        packet.pts = packet.dts = 1000 * index
        packet.duration = 800
        packet.time_base = Fraction(1, 1000)
        packet.stream = stream
        container.mux(packet)


def packets(path: Path, kind: str):
    """(pts, duration, bytes) of every packet of the first stream of a kind, times in seconds."""
    with av.open(str(path)) as container:
        stream = getattr(container.streams, kind)[0]
        base = stream.time_base
        return [
            (packet.pts * base, (packet.duration or 0) * base, bytes(packet))
            for packet in container.demux(stream)
            if packet.pts is not None
        ]


def decoded(path: Path):
    """Every decoded picture of a video."""
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


def times(path: Path):
    """When pictures are shown, in seconds."""
    return [frame.pts * frame.time_base for frame in decoded(path)]


if __name__ == "__main__":
    import sys

    write_clip(Path(sys.argv[1]), Clip(frames=250))
