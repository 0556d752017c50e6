"""Text subtitles go into every container, in the form that it takes; their times and emphasis stay."""

from fractions import Fraction

import av
import pytest

from tests.video.clips import Clip, packets, write_clip

EMPTY = b"\0\0"  # MP4's way to show nothing


def texts(path):
    """(start, seconds, bytes) of what is shown."""
    return [each for each in packets(path, "subtitles") if each[2] != EMPTY]


@pytest.mark.parametrize(("suffix", "form"), [(".mkv", "srt"), (".webm", "webvtt")])
def test_subtitles_of_mp4_in_other_containers(tmp_path, upscaled, suffix, form):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=75, audio=None))
    target = tmp_path / f"out{suffix}"
    outcome = upscaled(source, target, encode={})
    container = {".mkv": "matroska", ".webm": "webm"}[suffix]
    assert outcome.told == (f"subtitle stream 1 (mov_text) cannot go into {container} and was turned into {form}",)
    assert texts(target) == [(second, Fraction(4, 5), f"second {second}".encode()) for second in range(3)]
    with av.open(str(target)) as result:
        (stream,) = result.streams.subtitles
        assert (stream.codec_context.name, stream.language) == (form, "fra")


@pytest.mark.parametrize("suffix", [".mp4", ".mov"])
def test_srt_in_mp4_and_back(tmp_path, upscaled, suffix):
    said = ("grüß dich", "<i>leise</i>, <b>laut</b>", "two\nlines")
    source = write_clip(tmp_path / "source.mkv", Clip(frames=75, audio=None, subtitles="srt", texts=said))
    there, back = tmp_path / f"there{suffix}", tmp_path / "back.mkv"
    outcome = upscaled(source, there)
    assert outcome.status == "done", outcome.message
    found = texts(there)
    assert [(start, seconds) for start, seconds, _ in found] == [(second, Fraction(4, 5)) for second in range(3)]
    assert found[0][2] == len(said[0].encode()).to_bytes(2, "big") + said[0].encode()
    assert upscaled(there, back).status == "done"
    assert tuple(text.decode().replace("\r\n", "\n") for _, _, text in texts(back)) == said


def test_a_text_too_long_for_the_other_form_is_left_out_alone(tmp_path, upscaled):
    """MP4 counts a text's bytes in sixteen bits."""
    said = ("first", "long " * 20_000, "last")
    source = write_clip(tmp_path / "source.mkv", Clip(frames=75, audio=None, subtitles="srt", texts=said))
    outcome = upscaled(source, tmp_path / "out.mp4")
    assert outcome.status == "done", outcome.message
    assert [text[2:] for _, _, text in texts(tmp_path / "out.mp4")] == [b"first", b"last"]


def test_a_clip_takes_its_own_subtitles_along(tmp_path, upscaled):
    from enlcn.video.decoding import Clip as Part

    source = write_clip(tmp_path / "clip.mp4", Clip(frames=100, audio=None))
    upscaled(source, tmp_path / "out.mkv", clip=Part(start=Fraction(2), end=Fraction(3)))
    assert texts(tmp_path / "out.mkv") == [(0, Fraction(4, 5), b"second 2")]
