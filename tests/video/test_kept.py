"""What a video must keep: sound, subtitles, times, rotation, pixel shape, colour tags, depth, metadata."""

from fractions import Fraction

import av
import pytest
from numpy.random import default_rng

from tests.video.clips import Clip, decoded, packets, times, write_clip


def test_sound_and_subtitles_are_the_same_packets(tmp_path, upscaled):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=75))
    outcome = upscaled(source, tmp_path / "out.mp4")
    assert outcome.status == "done", outcome.message
    assert (outcome.lr_size, outcome.sr_size, outcome.told, outcome.notes) == ((128, 72), (256, 144), (), ())
    for kind in ("audio", "subtitles"):
        before, after = packets(source, kind), packets(tmp_path / "out.mp4", kind)
        assert len(before) > 3
        assert after == before  # bytes, times and durations
    with av.open(str(tmp_path / "out.mp4")) as result:
        assert [stream.type for stream in result.streams] == ["video", "audio", "subtitle"]
        assert [stream.language for stream in result.streams] == ["eng", "deu", "fra"]
        assert result.metadata["title"] == "a clip"
        assert result.streams.video[0].time_base == Fraction(1, 12800)
    assert len(decoded(tmp_path / "out.mp4")) == 75
    assert list(tmp_path.glob(".*")) == []  # no segments are left


def test_a_file_that_ends_early_is_told(tmp_path, upscaled):
    source = write_clip(tmp_path / "clip.mkv", Clip(frames=60, audio=None, subtitles=None))
    data = source.read_bytes()
    source.write_bytes(data[: len(data) * 2 // 3])
    outcome = upscaled(source, tmp_path / "out.mkv")
    assert outcome.status == "done", outcome.message
    count = len(decoded(tmp_path / "out.mkv"))
    assert 10 < count < 55
    assert f"the file ends early: after {count / 25:.1f} of the 2.4 seconds it tells of" in outcome.notes


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov"])
def test_variable_frame_rates_keep_every_time(tmp_path, upscaled, suffix):
    steps = default_rng(3).choice([320, 512, 640, 1280, 6400], size=54)
    pts = (0, *(int(t) for t in steps.cumsum()))
    clip = Clip(times=pts, subtitles=None)
    source = write_clip(tmp_path / f"vfr{suffix}", clip)
    outcome = upscaled(source, tmp_path / f"out{suffix}")
    assert outcome.status == "done", outcome.message
    exact = [t * clip.time_base for t in pts]
    shown = times(tmp_path / f"out{suffix}")
    if suffix == ".mkv":  # Matroska counts in milliseconds
        assert max(abs(a - b) for a, b in zip(shown, exact, strict=True)) <= Fraction(1, 1000)
        assert shown == times(source)
    else:
        assert shown == exact
    decoding = [packet.dts for packet in _video_packets(tmp_path / f"out{suffix}") if packet.dts is not None]
    assert decoding == sorted(set(decoding))


@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
@pytest.mark.parametrize("rotation", [90, -90, 180])
def test_rotation_and_pixel_shape(tmp_path, upscaled, rotation, suffix):
    clip = Clip(frames=12, rotation=rotation, aspect=Fraction(4, 3), audio=None, subtitles=None)
    source = write_clip(tmp_path / f"turned{suffix}", clip)
    assert abs(decoded(source)[0].rotation) == abs(rotation)
    assert upscaled(source, tmp_path / f"out{suffix}").status == "done"
    result = decoded(tmp_path / f"out{suffix}")[0]
    assert (result.width, result.height) == (256, 144)
    assert result.rotation == decoded(source)[0].rotation
    assert _matrix(result) == _matrix(decoded(source)[0])
    with av.open(str(tmp_path / f"out{suffix}")) as container:
        assert container.streams.video[0].sample_aspect_ratio == Fraction(4, 3)


@pytest.mark.parametrize(
    "tags", [(1, 1, 1, 1), (6, 1, 6, 6), (5, 2, 5, 4), (9, 1, 9, 14)], ids=["709", "601", "601-full", "2020"]
)
def test_colour_tags(tmp_path, upscaled, tags):
    matrix, span, primaries, transfer = tags
    clip = Clip(frames=6, matrix=matrix, range=span, primaries=primaries, transfer=transfer, audio=None, subtitles=None)
    source = write_clip(tmp_path / "tagged.mp4", clip)
    assert upscaled(source, tmp_path / "out.mp4").status == "done"
    frame = decoded(tmp_path / "out.mp4")[0]
    assert (frame.colorspace, frame.color_range, frame.color_primaries, frame.color_trc) == tags


def test_a_missing_matrix_is_written_down_as_players_guess_it_for_the_source(tmp_path, upscaled):
    """Untagged and small means bt601; untagged and large means bt709: upscaling must not change the colours."""
    clip = Clip(frames=6, matrix=2, range=0, primaries=2, transfer=2, audio=None, subtitles=None)
    upscaled(write_clip(tmp_path / "small.mp4", clip), tmp_path / "out.mp4")
    assert decoded(tmp_path / "small.mp4")[0].colorspace == 2
    assert decoded(tmp_path / "out.mp4")[0].colorspace == 6


@pytest.mark.parametrize(
    ("pixels", "encode", "expected"),
    [
        ("yuv420p10le", {}, "yuv420p10le"),
        ("yuv422p10le", {}, "yuv422p10le"),
        ("yuv444p", {}, "yuv444p"),
        ("yuv420p10le", {"pixel_format": "yuv420p"}, "yuv420p"),
        ("yuv420p10le", {"codec": "hevc"}, "yuv420p10le"),
        ("yuv422p10le", {"codec": "av1", "preset": "10"}, "yuv420p10le"),
        ("yuv420p10le", {"codec": "ffv1", "preset": None}, "yuv420p10le"),
    ],
)
def test_depth_and_chroma(tmp_path, upscaled, pixels, encode, expected):
    source = write_clip(tmp_path / "deep.mkv", Clip(frames=6, pixel_format=pixels, audio=None, subtitles=None))
    outcome = upscaled(source, tmp_path / "out.mkv", encode={"preset": "ultrafast"} | encode)
    assert outcome.status == "done", outcome.message
    assert decoded(tmp_path / "out.mkv")[0].format.name == expected
    assert bool(outcome.told) == (encode.get("codec") == "av1")  # 4:2:2 is told to become 4:2:0


def test_chapters_and_what_a_container_cannot_hold(tmp_path, upscaled):
    plain = write_clip(tmp_path / "plain.mkv", Clip(frames=50, subtitles="srt"))
    with av.open(str(plain)) as source, av.open(str(tmp_path / "chapters.mkv"), "w") as target:
        chapters = [
            {"id": 1, "start": 0, "end": 1000, "time_base": Fraction(1, 1000), "metadata": {"title": "one"}},
            {"id": 2, "start": 1000, "end": 2000, "time_base": Fraction(1, 1000), "metadata": {"title": "two"}},
        ]
        target.set_chapters(chapters)
        copies = {stream.index: target.add_stream_from_template(stream, opaque=True) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None or packet.pts is not None:
                packet.stream = copies[packet.stream.index]
                target.mux(packet)
    outcome = upscaled(tmp_path / "chapters.mkv", tmp_path / "out.mp4")
    assert outcome.told == ("subtitle stream 2 (srt) cannot go into mp4 and was turned into mov_text",)
    with av.open(str(tmp_path / "out.mp4")) as result:
        assert [chapter["metadata"]["title"] for chapter in result.chapters()] == ["one", "two"]
        assert len(result.streams.audio) == 1
    assert upscaled(tmp_path / "chapters.mkv", tmp_path / "out.mkv").told == ()
    with av.open(str(tmp_path / "out.mkv")) as result:
        assert len(result.streams.subtitles) == 1
        assert [(c["start"], c["end"]) for c in result.chapters()] == [(0, 10**9), (10**9, 2 * 10**9)]


def _video_packets(path):
    with av.open(str(path)) as container:
        return list(container.demux(video=0))


def _matrix(frame):
    return next((bytes(item) for item in frame.side_data if item.type.name == "DISPLAYMATRIX"), None)
