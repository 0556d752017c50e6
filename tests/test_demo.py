"""`make demo`: two pictures, and one plain line that says what is gained."""

import re
import subprocess
import sys

from PIL import Image


def demo(out):
    return subprocess.run(
        [sys.executable, "-m", "enlcn.demo", "--out", out], capture_output=True, text=True, timeout=600
    )


def test_a_place_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    done = demo(tmp_path / "file")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "is a file, not a folder" in done.stderr


def test_demo(tmp_path):
    done = demo(tmp_path / "out")
    assert done.returncode == 0, done.stderr
    bicubic, ours, gain = map(float, re.findall(r"(-?\d+\.\d+) dB", done.stdout.splitlines()[0]))
    assert gain > 1
    assert abs(ours - bicubic - gain) < 0.011
    assert Image.open(tmp_path / "out" / "demo-x4.png").size == (384 * 4, 256 * 4)
    comparison = Image.open(tmp_path / "out" / "demo-comparison.png")
    assert comparison.width > 2 * 2 * 384
    left, right = (comparison.crop((x, 20, x + 700, 500)) for x in (20, 20 + 2 * 384))
    assert left.tobytes() != right.tobytes()
    for name in ("demo-x4.png", "demo-comparison.png"):
        assert str(tmp_path / "out" / name) in done.stdout
