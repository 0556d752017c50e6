"""What `enlcn upscale` shows on a terminal: a bar that moves, none for what has failed, more with -v."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

pty = pytest.importorskip("pty", reason="needs pseudo-terminals")

PHOTO = Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"
TINY = "untrained:enlcn-tiny"


def on_a_terminal(*arguments):
    """What a terminal of 100 columns is sent, without colours; and the exit code."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "enlcn", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment)
    os.close(theirs)
    sent = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        sent += part
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", sent.decode()), process.wait(60)


def test_a_single_picture_moves_its_bar(tmp_path):
    Image.open(PHOTO).resize((1200, 800)).save(tmp_path / "p[1].png")
    shown, code = on_a_terminal("upscale", tmp_path / "p[1].png", "-m", TINY, "--device", "cpu")
    assert code == 0, shown
    counts = [int(done) for done in re.findall(r"p\[1\]\.png +[━╸╺]+ +(\d+)/9", shown)]
    assert counts == sorted(counts)
    assert len({count for count in counts if 0 < count < 8}) >= 2, shown  # modules, not the strips at the end


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failed_picture_leaves_no_bar(tmp_path, jobs):
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "bad.jpg").write_bytes(b"not a picture")
    Image.open(PHOTO).resize((900, 600)).save(folder / "good.png")
    shown, code = on_a_terminal("upscale", folder, "-o", tmp_path / "o", "-m", TINY, "--device", "cpu", "-j", jobs)
    assert code == 1, shown
    _, failed, after = shown.partition("failed:")
    assert failed
    moving = re.search(r"good\.png +[━╸╺]+ [1-9]", after)
    assert moving, after
    assert not re.search(r"bad\.jpg +[━╸╺]", after[moving.start() :]), after


def test_verbose_says_how_it_was_done(tmp_path):
    Image.open(PHOTO).crop((0, 0, 40, 30)).save(tmp_path / "a.png")
    command = [sys.executable, "-m", "enlcn", "-v", "upscale", str(tmp_path / "a.png"), "--device", "cpu"]
    environment = {**os.environ, "COLUMNS": "400"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    for told in (
        r"a\.png: 40x30 read in \d",
        r"model enlcn-light-x4: \S+enlcn-light-x4\.safetensors, opened in .* on cpu in fp32, memory limit \d",
        r"40x30 computed: whole, in fp32, on cpu, in \d",
        r"a_x4\.png: png of \d\.\d MiB written in \d",
    ):
        assert re.search(told, done.stderr), (told, done.stderr)
    (tmp_path / "a_x4.png").unlink()
    command.remove("-v")
    assert "computed" not in subprocess.run(command, capture_output=True, text=True, timeout=300).stderr
