"""A video run killed with no chance to clean up, and what the next run makes of it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from enlcn.errors import UserError
from enlcn.video.segments import Workspace, fingerprint
from tests.video.clips import Clip, decoded, write_clip


def command(*arguments):
    return [sys.executable, "-m", "enlcn", "upscale", "--device", "cpu", *map(str, arguments)]


def run(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=600)


def test_killed_in_the_middle_and_resumed_gives_the_same_file(tmp_path, model):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=160, rate=40))
    options = ("-m", model, "--segment", 10, "--preset", "ultrafast")
    whole, broken = tmp_path / "whole" / "out.mp4", tmp_path / "broken" / "out.mp4"
    assert run(source, "-o", whole, *options).returncode == 0
    process = subprocess.Popen(command(source, "-o", broken, *options))
    try:
        while len(list(broken.parent.glob(".out.mp4.segments-*/*.segment"))) < 3:
            assert process.poll() is None, "it must not end before it is killed"
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    assert not broken.exists()
    (folder,) = broken.parent.glob(".out.mp4.segments-*")
    there = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.segment")}
    assert 3 <= len(there) < 16
    (folder / "000001.segment").write_bytes((folder / "000001.segment").read_bytes()[:-7])  # a disk that lost its end
    again = run(source, "-o", broken, *options)
    assert again.returncode == 0, again.stderr
    assert "1 segment was there from an earlier run" in again.stderr
    assert broken.read_bytes() == whole.read_bytes()
    assert len(decoded(broken)) == 160
    assert [path.name for path in broken.parent.iterdir()] == ["out.mp4"]


def test_killed_after_the_last_segment_and_one_lost_since(tmp_path, upscaled, monkeypatch):
    """Killed while the file is put together: with all segments there, with one lost, with the end not noted."""
    import enlcn.video.run as verb

    source = write_clip(tmp_path / "clip.mp4", Clip(frames=50))
    assert upscaled(source, tmp_path / "whole.mp4").status == "done"

    def killed(*arguments):
        raise KeyboardInterrupt

    for lose in ([], ["000001.segment"], ["end.json"]):
        with monkeypatch.context() as patch:
            patch.setattr(verb, "remux", killed)
            with pytest.raises(KeyboardInterrupt):
                upscaled(source, tmp_path / "out.mp4")
        (folder,) = tmp_path.glob(".out.mp4.segments-*")
        for name in lose:
            (folder / name).unlink()
        outcome = upscaled(source, tmp_path / "out.mp4")
        assert outcome.status == "done", outcome.message
        counted = "1 segment was" if lose == ["000001.segment"] else "3 segments were"
        assert outcome.notes == (f"{counted} there from an earlier run",)
        assert outcome.mode.startswith("50 frames")
        assert (tmp_path / "out.mp4").read_bytes() == (tmp_path / "whole.mp4").read_bytes()


def test_other_settings_do_not_take_old_segments_and_two_runs_do_not_meet(tmp_path, model, upscaled):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=30, audio=None, subtitles=None))
    one, other = fingerprint(source, {"crf": 1}), fingerprint(source, {"crf": 2})
    assert one != other
    with Workspace(tmp_path / "o.mp4", one) as held:
        held.write(0, [], b"", 1)
        with pytest.raises(UserError, match="another process is at work"), Workspace(tmp_path / "o.mp4", one):
            pass
        with Workspace(tmp_path / "o.mp4", other) as fresh:
            assert (held.complete(), fresh.complete()) == (1, 0)
    # What is left over of other settings goes when the video is done.
    assert upscaled(source, tmp_path / "o.mp4").status == "done"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip.mp4", "o.mp4"]
    source.write_bytes(source.read_bytes() + b"\0")
    assert fingerprint(source, {"crf": 1}) != one
