"""What is wrong with a command is told before torch is imported, in the words of the verb that would have found out."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from enlcn.checkpoint import load, read
from enlcn.data.image_io import load_image
from enlcn.data.shards import find_images
from enlcn.data.testsets import find_testsets
from enlcn.errors import UserError
from enlcn.train.recipes import recipe
from enlcn.train.start import Job, train
from enlcn.video.probe import open_video

# Ends with 3 where torch was imported.
PROBE = """
import sys
from enlcn.cli import main
try:
    main()
except SystemExit as ended:
    sys.exit(3 if 'torch' in sys.modules else ended.code)
"""
TRAIN = ["train", "cpu-x2", "--out", "run", "--data"]


def validate_on_nothing():
    train(Job(recipe("cpu-x2"), Path(), Path("run"), validation=Path("none"), device="cpu"))


CASES = {
    "picture": (["upscale", "none.png"], lambda: load_image(Path("none.png"))),
    "video": (["upscale", "none.mp4"], lambda: open_video(Path("none.mp4"))),
    "photo": (["attention", "none.png", "--at", "1,1", "-o", "m.png"], lambda: load_image(Path("none.png"))),
    "test set": (["evaluate", "-m", "bicubic", "-s", "4", "-d", "none"], lambda: find_testsets("none", 4)),
    "known set": (["evaluate", "-m", "bicubic", "-s", "4", "-d", "Set5"], lambda: find_testsets("Set5", 4)),
    "training images": ([*TRAIN, "none"], lambda: find_images(Path("none"))),
    "validation images": ([*TRAIN, ".", "--val", "none"], validate_on_nothing),
    "weights": (["info", "none.safetensors"], lambda: load("none.safetensors")),
    "a name": (["info", "enlcn-ligth-x4"], lambda: load("enlcn-ligth-x4")),
    "authors' weights": (["convert", "none.pt", "b.safetensors"], lambda: read("none.pt")),
}


def enlcn(*arguments):
    return subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, timeout=300)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ENLCN_DATA", raising=False)
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_told_at_once_as_the_verb_tells_it(case, empty_folder):
    arguments, verb = CASES[case]
    done = enlcn(*arguments)
    assert done.returncode == 2, done.stderr
    with pytest.raises(UserError) as told:
        verb()
    assert done.stderr == f"error: {told.value}\n"
    assert list(empty_folder.iterdir()) == []


def test_of_several_the_others_are_still_done():
    done = enlcn("upscale", "none.png", "nor-this.png")
    assert done.stderr.splitlines() == [
        "failed: none.png: no such file",
        "failed: nor-this.png: no such file",
        "2 failed",
    ]


def test_a_report_and_existing_results_still_count(empty_folder):
    assert "none.png: no such file" in enlcn("upscale", "none.png", "--report", "r.json").stderr
    assert json.loads((empty_folder / "r.json").read_text())[0]["status"] == "failed"
    (empty_folder / "none_x4.png").touch()
    assert "exists, skipped" in enlcn("upscale", "none.png", "--skip-existing").stderr
    assert "none.png -> none_x4.png (no such file)\n" in enlcn("upscale", "none.png", "--dry-run").stdout


def test_names_patterns_and_pipes_are_no_missing_files(empty_folder):
    (empty_folder / "a[1].txt").touch()
    for arguments, told in (
        (["upscale", "*.txt"], "*.txt: no picture or video matches"),  # told by the verb, which looked for one
        (["upscale", "-"], "standard input"),
        (["info", "untrained:enlcn-tiny"], ""),
        (["info", "enlcn-light-x4"], ""),
    ):
        done = subprocess.run(
            [sys.executable, "-c", PROBE, *arguments], input="", capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 3, done.stderr
        assert told in done.stderr


MISTAKES = {
    "a scale beyond the network's": (["-s", "9"], "x9 is beyond x4, the largest trained scale"),
    "a scale beyond one network's": (["-s", "3", "-m", "enlcn-light-x2"], "x3 is beyond this model's x2; upscale by"),
    "an unknown model": (["-s", "4", "-m", "enlcn-ligth-x4"], "did you mean enlcn-light-x4"),
    "an unknown precision": (["--precision", "fp8"], "precision is 'fp8'; choose from auto, fp32, bf16, fp16"),
    "an unknown format": (["-f", "gif"], "format is 'gif'; choose from auto, png"),
    "a negative width": (["--width", "-4"], "scale, width and height must be positive numbers"),
    "too little memory": (["--memory-limit", "3M"], "the memory limit must be at least 512 MiB"),
    "contradicting options": (["--overwrite", "--skip-existing"], "contradict each other"),
    "an unknown colour": (["--background", "mauve"], "'mauve' is no colour known here"),
    "an option of videos": (["--crf", "20"], "no input is a video"),
    "a result that exists": ([], "a_x4.png: exists already; pass --overwrite"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_in_a_command_are_told_at_once(case, empty_folder):
    arguments, told = MISTAKES[case]
    for name in ("a.png", "a_x4.png"):
        (empty_folder / name).touch()
    done = enlcn("upscale", "a.png", *arguments)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
