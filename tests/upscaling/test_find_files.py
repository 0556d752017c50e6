"""Files by patterns: as glob finds them, but never in circles."""

import glob
from pathlib import Path

import pytest

from enlcn.errors import UserError
from enlcn.upscaling.find_files import find_files
from enlcn.upscaling.jobs import Naming, plan_jobs


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("p.png", "a/p.png", "a/b/q.png", "a/b/c/p.jpg", "[x]/p.png", ".h/p.png", "a/.p.png", "d.png/e.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    [
        *("*.png", "**/*.png", "./**/*.png", "a/**", "**", "**/**/*.png", "**/b/**/*", "*/**/p.*", "[[]x]/**/*.png"),
        *("a/*/q.png", "**/p.png", "none/**/*.png", "**/.p.png", "[ab]/**/[qp].*", "a//**/*.png"),
    ],
)
@pytest.mark.parametrize("absolute", [False, True])
def test_as_glob_finds_them(tree, pattern, absolute):
    pattern = f"{glob.escape(str(tree))}/{pattern}" if absolute else pattern
    expected = {Path(name) for name in glob.glob(pattern, recursive=True) if not Path(name).is_dir()}  # noqa: PTH207
    assert find_files(pattern) == sorted(expected, key=str)


def test_links_in_circles(tree):
    Path("a/up").symlink_to("..")
    Path("a/round").symlink_to(".")
    heard = []
    assert find_files("**/*.jpg", heard.append) == [Path("a/b/c/p.jpg")]
    assert sorted(heard) == [Path("a/round"), Path("a/up")]
    assert find_files("a/up/*.png") == [Path("a/up/p.png")]  # named, so followed
    assert find_files("a/up/**/p.jpg") == [Path("a/up/a/b/c/p.jpg")]


def test_a_collision_is_told_in_a_short_line(tree):
    deep = [Path(side, *["a-long-name"] * 15) for side in "xy"]
    for folder in deep:
        folder.mkdir(parents=True)
        (folder / "p.png").touch()
    with pytest.raises(
        UserError, match=r"^out/p_png.png: x/a-long-.*….*/p.png and y/a-long-.* would both go"
    ) as caught:
        plan_jobs([f"{folder}/*.png" for folder in deep], Naming("out", None, None, "x4"))
    assert len(str(caught.value)) < 250
