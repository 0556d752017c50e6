"""Which video codecs are offered, how each is told its quality and speed, and which pixels it takes."""

from dataclasses import dataclass
from typing import Any

from enlcn.errors import UserError
from enlcn.video.pyav import pyav

_X264_PRESETS = (
    *("ultrafast", "superfast", "veryfast", "faster", "fast"),
    *("medium", "slow", "slower", "veryslow", "placebo"),
)
_NVENC_PRESETS = ("p1", "p2", "p3", "p4", "p5", "p6", "p7")


@dataclass(frozen=True)
class Codec:
    """An encoder of FFmpeg.

    Attributes:
        encoder: its name there.
        quality_option: what a constant quality is called; None for codecs that have none.
        quality: our default of it, visually near to lossless.
        worst: the largest number it takes.
        preset_option: what speed (or for ProRes the profile) is called.
        presets: what it may be, and
        preset: our default.
        fixed: options that are always set.
    """

    encoder: str
    quality_option: str | None = None
    quality: int = 0
    worst: int = 0
    preset_option: str | None = None
    presets: tuple[str, ...] = ()
    preset: str | None = None
    fixed: tuple[tuple[str, str], ...] = ()


CODECS = {
    "h264": Codec("libx264", "crf", 16, 51, "preset", _X264_PRESETS, "medium"),
    "hevc": Codec(
        *("libx265", "crf", 18, 51, "preset", _X264_PRESETS, "medium"), (("x265-params", "log-level=error"),)
    ),
    "av1": Codec("libsvtav1", "crf", 20, 63, "preset", tuple(map(str, range(14))), "8"),
    "vp9": Codec(
        *("libvpx-vp9", "crf", 18, 63, "cpu-used", tuple(map(str, range(9))), "2"),
        (("b", "0"), ("deadline", "good"), ("row-mt", "1")),
    ),
    "ffv1": Codec("ffv1", fixed=(("level", "3"), ("slicecrc", "1"))),
    "prores": Codec(
        "prores_ks", preset_option="profile", presets=("proxy", "lt", "standard", "hq", "4444"), preset="hq"
    ),
    "h264-nvenc": Codec("h264_nvenc", "cq", 18, 51, "preset", _NVENC_PRESETS, "p6", (("rc", "vbr"),)),
    "hevc-nvenc": Codec("hevc_nvenc", "cq", 20, 51, "preset", _NVENC_PRESETS, "p6", (("rc", "vbr"),)),
    "av1-nvenc": Codec("av1_nvenc", "cq", 24, 63, "preset", _NVENC_PRESETS, "p6", (("rc", "vbr"),)),
}
_ALIASES = {"x264": "h264", "avc": "h264", "x265": "hevc", "h265": "hevc", "libvpx-vp9": "vp9", "libsvtav1": "av1"}
_ALIASES |= {codec.encoder: name for name, codec in CODECS.items()}


def codec_named(name: str) -> Codec:
    """The codec a user asks for; an unknown one lists those there are."""
    key = _ALIASES.get(name.lower(), name.lower())
    if key not in CODECS:
        raise UserError(f"codec is '{name}'; choose from auto, {', '.join(CODECS)}")
    try:
        pyav().codec.Codec(CODECS[key].encoder, "w")
    except ValueError:
        raise UserError(f"codec '{name}': this build of FFmpeg has no {CODECS[key].encoder}") from None
    return CODECS[key]


def default_codec(container: str) -> str:
    """What a container gets where nothing is said: H.264 plays everywhere, WebM knows VP9."""
    return "vp9" if container == "webm" else "h264"


def encoder_options(codec: Codec, crf: int | None, preset: str | None) -> dict[str, str]:
    """The options an encoder is opened with."""
    options = dict(codec.fixed)
    if crf is not None and codec.quality_option is None:
        raise UserError(f"--crf means nothing to {codec.encoder}; leave it out")
    if crf is not None and not 0 <= crf <= codec.worst:
        raise UserError(f"--crf is {crf}; {codec.encoder} takes 0 (best) to {codec.worst}")
    if preset is not None and preset not in codec.presets:
        known = ", ".join(codec.presets) if codec.presets else "none"
        raise UserError(f"--preset is '{preset}'; {codec.encoder} has {known}")
    if codec.quality_option is not None:
        options[codec.quality_option] = str(codec.quality if crf is None else crf)
    if codec.preset_option is not None:
        options[codec.preset_option] = preset or str(codec.preset)
    return options


def pixel_formats(codec: Codec) -> list[str]:
    """The YUV formats an encoder takes, without those that only name a range."""
    formats: Any = pyav().codec.Codec(codec.encoder, "w").video_formats or []
    return [form.name for form in formats if form.name.startswith("yuv4")]


def choose_pixel_format(codec: Codec, wanted: str | None, chroma: str, bits: int) -> str:
    """What the encoder is fed: as asked, or with the source's chroma and depth, or the nearest it has."""
    formats = pixel_formats(codec)
    if wanted is not None:
        if wanted not in formats:
            raise UserError(f"--pixel-format is '{wanted}'; {codec.encoder} takes {', '.join(formats)}")
        return wanted
    finer = {"420": ("420", "422", "444"), "422": ("422", "444", "420"), "444": ("444", "422", "420")}[chroma]
    depths = (8, 10, 12, 14, 16)
    depth = min((d for d in depths if d >= bits), default=16)
    deeper = [*(d for d in depths if d >= depth), *(d for d in reversed(depths) if d < depth)]
    for subsampling in finer:
        for bits_each in deeper:
            name = f"yuv{subsampling}p" + ("" if bits_each == 8 else f"{bits_each}le")
            if name in formats:
                return name
    raise UserError(f"{codec.encoder} takes none of the usual pixel formats, only {', '.join(formats)}")


def depth_of(pixel_format: str) -> int:
    """Bits of a sample.

    >>> depth_of("yuv420p"), depth_of("yuv422p10le")
    (8, 10)
    """
    tail = pixel_format.partition("p")[2].removesuffix("le")
    return int(tail) if tail else 8


def fitting_size(pixel_format: str, height: int, width: int) -> tuple[int, int]:
    """(height, width) made even where chroma is shared by pairs of pixels.

    >>> fitting_size("yuv420p", 33, 45), fitting_size("yuv444p", 33, 45)
    ((32, 44), (33, 45))
    """

    def even(length: int) -> int:
        return max(2, 2 * round(length / 2))

    chroma = pixel_format[3:6]
    return (even(height) if chroma == "420" else height, width if chroma == "444" else even(width))
