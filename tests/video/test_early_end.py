"""Whether a video ends early is told by what its file says, not by a rate times a length."""

from dataclasses import replace
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.video.decoding import Clip as Part
from enlcn.video.early_end import early_end
from enlcn.video.probe import probe
from tests.video.clips import Clip, write_clip

SILENT = {"audio": None, "subtitles": None}
SLOW = (*range(0, 6 * 512, 512), *range(10240, 10240 + 6 * 512, 512))  # at 25 a second there would be 26, not 12


@pytest.mark.parametrize("part", [Part(), Part(start=Fraction(1, 10)), Part(end=Fraction(1)), Part(frames=11)])
@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_pictures_shown_for_longer_are_not_missed(tmp_path, upscaled, suffix, part):
    source = write_clip(tmp_path / f"slow{suffix}", Clip(frames=12, times=SLOW, **SILENT))
    outcome = upscaled(source, tmp_path / f"out{suffix}", clip=part)
    assert outcome.status == "done", outcome.message
    assert outcome.notes == ()


def test_by_count_or_by_length(tmp_path):
    facts = probe(write_clip(tmp_path / "a.mp4", Clip(frames=50, **SILENT)))
    assert (facts.frames, facts.is_counted, facts.seconds) == (50, True, 2)
    told = "the file ends early: it holds 40 of the 50 pictures it tells of"
    assert early_end(facts, Part(), 40, Fraction(2)) == told
    assert early_end(facts, Part(), 49, Fraction(1)) == ""
    assert early_end(facts, Part(frames=10), 10, Fraction(1)) == ""
    facts = probe(write_clip(tmp_path / "a.mkv", Clip(frames=50, **SILENT)))
    assert (facts.frames, facts.is_counted, facts.seconds) == (50, False, 2)
    assert early_end(facts, Part(), 40, Fraction(2)) == ""
    told = "the file ends early: after 1.5 of the 2.0 seconds it tells of"
    assert early_end(facts, Part(), 50, Fraction(3, 2)) == told
    for part in (Part(start=Fraction(1)), Part(end=Fraction(1)), Part(frames=3)):
        assert early_end(facts, part, 3, Fraction(1)) == ""
    assert early_end(replace(facts, seconds=None), Part(), 3, Fraction(1)) == ""


def test_sound_that_goes_on_is_no_early_end(tmp_path, upscaled):
    source = write_clip(tmp_path / "a.mkv", Clip(frames=20, subtitles="srt", texts=("late",) * 9))
    assert upscaled(source, tmp_path / "out.mkv").notes == ()


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("a.mp4", [], "12 frames"),
        ("a.mkv", [], "about 26 frames"),
        ("a.mkv", ["--frames", "5"], "5 frames"),
        ("a.mp4", ["--frames", "1"], "1 frame"),
        ("a.mp4", ["--end", "0.2"], "about 2 frames"),
    ],
)
def test_a_dry_run_says_about(tmp_path, monkeypatch, name, options, told):
    monkeypatch.chdir(tmp_path)
    write_clip(tmp_path / name, Clip(frames=12, times=SLOW, **SILENT))
    done = CliRunner().invoke(app, ["upscale", name, "-m", "untrained:enlcn-tiny", "--dry-run", *options])
    assert f", {told}, " in done.stdout.replace("\n", " ")
