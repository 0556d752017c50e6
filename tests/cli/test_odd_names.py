"""Names that are no UTF-8 or hold ends of lines: escaped, in one line, the same wherever they are told."""

import json
import os
import subprocess
import sys

import pytest
from PIL import Image

TINY = ["-m", "untrained:enlcn-tiny-x2", "--device", "cpu"]
NAMES = (b"bad\xff.png", b"new\nline.png", b"esc\x1b[1m.png")
SHOWN = (r"bad\xff.png", r"new\nline.png", r"esc\x1b[1m.png")


@pytest.fixture
def odd(tmp_path):
    folder = os.fsencode(tmp_path / "d")
    os.mkdir(folder)  # noqa: PTH102
    try:
        for name in NAMES:
            with open(os.path.join(folder, name), "wb") as file:  # noqa: PTH118, PTH123
                Image.new("RGB", (8, 6)).save(file, "png")
    except OSError:
        pytest.skip("this file system takes no such names")
    return tmp_path


def upscale(where, *arguments):
    command = [sys.executable, "-m", "enlcn", "upscale", *arguments, *TINY]
    return subprocess.run(command, cwd=where, capture_output=True, timeout=300)


def test_names_are_escaped_alike_everywhere(odd):
    planned = upscale(odd, "d", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    lines = planned.stdout.decode().splitlines()
    assert sorted(lines) == sorted(f"d/{name} -> d_x2/{name} (8x6 -> 16x12)" for name in SHOWN)
    done = upscale(odd, "d", "--report", "r.json")
    assert done.returncode == 0, done.stderr
    told = [line.partition(": ")[0] for line in done.stderr.decode().splitlines()]
    assert sorted(told[:-1]) == sorted(f"d_x2/{name}" for name in SHOWN)
    report = json.loads((odd / "r.json").read_text("utf-8"))
    assert sorted(row["source"] for row in report) == sorted(f"d/{name}" for name in SHOWN)
    assert sorted(os.listdir(os.fsencode(odd / "d_x2"))) == sorted(NAMES)  # noqa: PTH208
    again = upscale(odd, "d")
    assert again.returncode == 1
    assert sum(line.startswith("failed: ") for line in again.stderr.decode().splitlines()) == len(NAMES)


def test_errors_and_warnings(odd):
    name = b"none\xff\n.png"
    done = upscale(odd, os.fsdecode(name))
    assert done.returncode == 2
    assert done.stderr.decode() == "error: none\\xff\\n.png: no such file\n"
    frames = [Image.new("RGB", (8, 6)), Image.new("RGB", (8, 6), "red")]
    place = os.path.join(os.fsencode(odd), b"two\xff\n.tif")  # noqa: PTH118
    with open(place, "w+b") as file:  # noqa: PTH123
        frames[0].save(file, "tiff", save_all=True, append_images=frames[1:])
    done = upscale(odd, os.fsdecode(os.path.basename(place)))  # noqa: PTH119
    assert done.returncode == 0, done.stderr
    assert done.stderr.decode().splitlines()[0].startswith("two\\xff\\n.tif: has 2 pages")
