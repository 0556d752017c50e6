"""The table of streams counts what a container does not say."""

from enlcn.video.stream_table import stream_table
from tests.video.clips import Clip, write_clip


def test_frames_and_seconds_of_every_container(tmp_path):
    tables = {
        suffix: stream_table(write_clip(tmp_path / f"clip{suffix}", Clip(frames=50, subtitles=subtitles)))
        for suffix, subtitles in ((".mp4", "mov_text"), (".mkv", "srt"))
    }
    for video, audio, subtitle in tables.values():
        assert video["content"].endswith(", 50 frames")
        assert abs(float(video["seconds"]) - 2) < 0.05
        assert abs(float(audio["seconds"]) - 2) < 0.05
        assert abs(float(subtitle["seconds"]) - 1.8) < 0.05
