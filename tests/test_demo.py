"""`make demo`: two pictures, and one plain line that says what is gained."""

import re
import subprocess
import sys

from PIL import Image


def test_demo(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "enlcn.demo", "--out", tmp_path / "out"], capture_output=True, text=True, timeout=120
    )
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
