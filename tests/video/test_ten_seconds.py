"""Ten seconds of 128x72 with sound and subtitles, upscaled x2: the stream table before and after."""

import subprocess
import sys

import pytest

from enlcn.video.stream_table import format_table, stream_table
from tests.video.clips import Clip, decoded, packets, times, write_clip


def compare(source, target):
    before, after = stream_table(source), stream_table(target)
    assert before[0]["content"] == "128x72 yuv420p bt709 limited, SAR 1, 250 frames"
    assert before[0]["seconds"] == "10.000"
    before[0]["content"] = before[0]["content"].replace("128x72", "256x144")
    assert after == before
    assert "| 0      | video" in format_table(after)
    assert times(target) == times(source)
    for kind in ("audio", "subtitles"):
        assert packets(target, kind) == packets(source, kind)


def test_stream_table_before_and_after(tmp_path, upscaled):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=250))
    assert upscaled(source, tmp_path / "out.mp4", segment=100).status == "done"
    compare(source, tmp_path / "out.mp4")


@pytest.mark.slow
def test_with_the_bundled_model(tmp_path):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=250))
    run = [sys.executable, "-m", "enlcn", "upscale", str(source), "-s", "2", "--device", "cpu"]
    assert subprocess.run(run, timeout=900).returncode == 0
    compare(source, tmp_path / "clip_x2.mp4")
    # The same scene: shrunk again it is the source, but for the coding.
    small = decoded(source)[100].to_ndarray(format="gray").astype(float)
    large = decoded(tmp_path / "clip_x2.mp4")[100].to_ndarray(format="gray").astype(float)
    shrunk = large.reshape(72, 2, 128, 2).mean(axis=(1, 3))
    assert abs(shrunk - small).mean() < 3
