"""Pictures into packets: one encoder, opened the same way for every segment and for the finished file."""

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from enlcn.errors import UserError
from enlcn.video import codecs
from enlcn.video.colour import from_rgb
from enlcn.video.probe import Colour, VideoFacts
from enlcn.video.pyav import first_line, pyav


@dataclass(frozen=True)
class EncodeOptions:
    """What the user asks of the encoder.

    Attributes:
        codec: a name in `codecs.CODECS`; "auto" for what suits the container.
        crf: constant quality, smaller is better; None for the codec's default.
        preset: speed against size; None for the codec's default.
        pixel_format: such as yuv420p; None keeps the chroma and depth of the source where the codec can.
    """

    codec: str = "auto"
    crf: int | None = None
    preset: str | None = None
    pixel_format: str | None = None


@dataclass(frozen=True)
class EncodePlan:
    """Everything that determines how pictures are encoded: two equal plans give packets that go together."""

    encoder: str
    options: tuple[tuple[str, str], ...]
    pixel_format: str
    width: int
    height: int
    time_base: Fraction
    rate: Fraction
    sample_aspect: Fraction
    colour: Colour


@dataclass(frozen=True)
class Coded:
    """One coded picture, in the order in which a decoder wants them."""

    pts: int
    is_key: bool
    data: bytes


def plan_encoding(
    options: EncodeOptions, facts: VideoFacts, size: tuple[int, int], container: str
) -> tuple[EncodePlan, tuple[str, ...]]:
    """How pictures of `size` (height, width) are encoded, and notes on what is not as in the source."""
    codec = _codec(options, container)
    form = codecs.choose_pixel_format(codec, options.pixel_format, facts.chroma, facts.bits)
    height, width = codecs.fitting_size(form, *size)
    notes = []
    if options.pixel_format is None:
        if codecs.depth_of(form) < facts.bits:
            notes.append(f"{codec.encoder} takes {codecs.depth_of(form)} bits a sample; rounded from {facts.bits}")
        if form[3:6] < facts.chroma:
            notes.append(f"{codec.encoder} takes no 4:{facts.chroma[1]}:{facts.chroma[2]} chroma; written as {form}")
    if (height, width) != size:
        notes.append(f"made {width}x{height} instead of {size[1]}x{size[0]}: {form} needs even sides")
    plan = EncodePlan(
        encoder=codec.encoder,
        options=tuple(sorted(codecs.encoder_options(codec, options.crf, options.preset).items())),
        pixel_format=form,
        width=width,
        height=height,
        time_base=facts.time_base,
        rate=facts.rate,
        sample_aspect=facts.sample_aspect,
        colour=facts.colour,
    )
    return plan, tuple(notes)


def check_options(options: EncodeOptions, container: str) -> None:
    """An error where no video could be encoded so, whatever it is."""
    codec = _codec(options, container)
    codecs.encoder_options(codec, options.crf, options.preset)
    if options.pixel_format is not None:
        codecs.choose_pixel_format(codec, options.pixel_format, "420", 8)


def _codec(options: EncodeOptions, container: str) -> codecs.Codec:
    return codecs.codec_named(codecs.default_codec(container) if options.codec == "auto" else options.codec)


def configure(context: Any, plan: EncodePlan) -> None:
    """Set all that a codec context must know before it is opened."""
    os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 speaks past FFmpeg: errors only
    context.width, context.height = plan.width, plan.height
    context.pix_fmt = plan.pixel_format
    context.time_base = plan.time_base
    context.framerate = plan.rate
    context.sample_aspect_ratio = plan.sample_aspect
    context.colorspace, context.color_range = plan.colour.matrix, plan.colour.range
    context.color_primaries, context.color_trc = plan.colour.primaries, plan.colour.transfer
    context.thread_count = 0  # as many as there are cores
    # Parameter sets lie beside the packets and not in them: every container that we write wants it so.
    context.flags |= int(pyav().codec.context.Flags.global_header)
    context.options = dict(plan.options)


class SegmentEncoder:
    """Encodes one segment, which starts with a key frame and refers to no other."""

    def __init__(self, plan: EncodePlan, name: Path):
        av = pyav()
        self.plan = plan
        self.coded: list[Coded] = []
        self._context = av.CodecContext.create(plan.encoder, "w")
        configure(self._context, plan)
        try:
            self._context.open()
        except (av.FFmpegError, OSError) as error:
            how = ", ".join(f"{key}={value}" for key, value in plan.options)
            raise UserError(
                f"{name}: {plan.encoder} cannot encode {plan.width}x{plan.height} {plan.pixel_format} with {how} "
                f"({first_line(error)}); try another --codec"
            ) from None

    @property
    def extradata(self) -> bytes:
        """Parameter sets, the same for every segment of a plan."""
        return bytes(self._context.extradata or b"")

    def add(self, pixels: np.ndarray, pts: int) -> None:
        """Encode RGB (H, W, 3) to be shown at `pts`."""
        frame = from_rgb(pixels, self.plan.pixel_format, self.plan.colour)
        frame.pts, frame.time_base = pts, self.plan.time_base
        self._take(self._context.encode(frame))

    def finish(self) -> list[Coded]:
        """All coded pictures."""
        self._take(self._context.encode(None))
        return self.coded

    def _take(self, packets: list[Any]) -> None:
        for packet in packets:
            if packet.size:
                self.coded.append(Coded(packet.pts, packet.is_keyframe, bytes(packet)))
