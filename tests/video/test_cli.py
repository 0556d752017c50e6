"""`enlcn upscale` with videos among its inputs."""

import json
import subprocess
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.cli.video_options import parse_time
from enlcn.errors import UserError
from enlcn.upscaling.jobs import Naming
from enlcn.video.jobs import split_videos
from tests.video.clips import Clip, decoded, write_clip


def invoke(*arguments):
    return CliRunner().invoke(app, ["upscale", "--device", "cpu", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    clip = Clip(frames=4, audio=None, subtitles=None)
    (tmp_path / "in" / "deep").mkdir(parents=True)
    write_clip(tmp_path / "in" / "a.mp4", clip)
    write_clip(
        tmp_path / "in" / "deep" / "b.avi", Clip(frames=4, codec="mpeg4", options={}, audio=None, subtitles=None)
    )
    Image.new("RGB", (20, 10), "red").save(tmp_path / "in" / "p.png")
    return tmp_path / "in"


def test_a_folder_of_pictures_and_videos(folder, model, tmp_path):
    report = tmp_path / "report.json"
    done = invoke(folder, "-m", model, "--preset", "ultrafast", "--report", report)
    assert done.exit_code == 0, done.output
    out = tmp_path / "in_x2"
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.*")) == ["a.mp4", "deep/b.mkv", "p.png"]
    assert decoded(out / "deep" / "b.mkv")[0].width == 256
    assert {entry["status"] for entry in json.loads(report.read_text())} == {"done"}
    again = invoke(folder, "-m", model)
    assert again.exit_code == 1
    assert "3 failed" in again.output
    assert "3 skipped" in invoke(folder, "-m", model, "--skip-existing").output


def test_dry_run_and_bad_inputs(folder, model):
    told = invoke(folder, "-m", model, "--dry-run", "--codec", "hevc")
    assert told.exit_code == 0
    assert "128x72 -> 256x144, 4 frames, libx265 yuv420p" in told.output.replace("\n", " ")
    beyond = invoke(folder / "a.mp4", "-m", model, "--dry-run", "--width", 999)
    assert beyond.exit_code == 1
    assert "x7.806 is beyond this model's x2" in beyond.output.replace("\n", "")
    (folder / "a_there.mp4").touch()
    there = ("-m", model, "--suffix", "_there", "--dry-run")
    assert "exists: pass --overwrite" in invoke(folder / "a.mp4", *there).output.replace("\n", "")
    assert invoke(folder / "a.mp4", *there).exit_code == 1
    assert invoke(folder / "a.mp4", *there, "--overwrite").exit_code == 0
    (folder / "a_there.mp4").unlink()
    (folder / "bad.mov").write_bytes(b"nothing")
    assert invoke(folder, "-m", model, "--dry-run").exit_code == 1
    crf = invoke(folder / "a.mp4", "-m", model, "--quality", 90)
    assert "videos take --crf" in str(crf.exception)
    for option in (("--format", "png"), ("--lossless",)):
        assert "are for pictures" in str(invoke(folder / "a.mp4", "-m", model, *option).exception)
    for option in (("--codec", "hevc"), ("--crf", 5), ("--start", 1)):
        assert "no input is a video" in str(invoke(folder / "p.png", "-m", model, *option).exception)
    bad = invoke(folder / "bad.mov", "-m", model)
    assert isinstance(bad.exception, UserError)
    assert "cannot be read as a video" in str(bad.exception)


def test_options_that_fit_no_video_are_told_once_and_before_any_work(folder, model, tmp_path):
    for option, message in (
        (("--codec", "theora"), "codec is 'theora'; choose from auto, h264"),
        (("--crf", 52), "--crf is 52; libx264 takes 0"),
        (("--codec", "ffv1", "--crf", 1), "--crf means nothing to ffv1"),
        (("--preset", "p1"), "--preset is 'p1'; libx264 has ultrafast"),
        (("--pixel-format", "rgb24"), "--pixel-format is 'rgb24'; libx264 takes yuv420p"),
    ):
        told = invoke(folder, "-m", model, "-o", tmp_path / "out", *option)
        assert isinstance(told.exception, UserError), told.output
        assert message in str(told.exception)
    assert not (tmp_path / "out").exists()


def test_an_encoder_that_cannot_be_opened_is_named_and_nothing_is_left(folder, model, tmp_path):
    told = invoke(folder / "a.mp4", "-m", model, "-o", tmp_path / "out" / "a.mp4", "--width", 20000, "--height", 20000)
    assert isinstance(told.exception, UserError)
    assert "libx264 cannot encode 20000x20000 yuv420p" in str(told.exception)
    assert list((tmp_path / "out").iterdir()) == []


def planned(inputs, output=None, suffix=None):
    pictures, videos = split_videos(list(map(str, inputs)), Naming(output, None, suffix, "x4"))
    return pictures, {str(job.source): str(job.target) for job in videos}


def test_names(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert planned(["a.mp4"]) == ([], {"a.mp4": "a_x4.mp4"})
    assert planned(["a.mp4"], suffix="-big") == ([], {"a.mp4": "a-big.mp4"})
    assert planned(["deep/*.avi"], "out") == ([], {"deep/b.avi": "out/b.mkv"})
    assert planned(["deep"]) == ([], {"deep/b.avi": "deep_x4/b.mkv"})
    assert planned(["*"], "out/") == (["*"], {"a.mp4": "out/a.mp4"})
    assert planned(["a.mp4"], "new.webm") == ([], {"a.mp4": "new.webm"})
    assert planned(["p.png"]) == (["p.png"], {})
    (folder / "deep" / "b.mkv").write_bytes(b"")
    assert set(planned(["deep"], "out")[1].values()) == {"out/b_avi.mkv", "out/b_mkv.mkv"}
    for output, message in (
        ("-", "cannot go to standard output"),
        ("o.png", "cannot write video into '.png'"),
        ("o.gif", r"cannot write video into '.gif' files; choose from .mp4, .m4v, .mov, .mkv, .webm"),
        ("a.mp4", "its own result would replace it"),
    ):
        with pytest.raises(UserError, match=message):
            planned(["a.mp4"], output)
    with pytest.raises(UserError, match="several inputs cannot go into one file"):
        planned(["a.mp4", "p.png"], "o.mp4")
    (folder / "o.gif").mkdir()
    assert planned(["a.mp4"], "o.gif") == ([], {"a.mp4": "o.gif/a.mp4"})


def test_what_is_left_out_is_told_once_and_reported(model, tmp_path):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=4, subtitles=None))
    command = [
        sys.executable,
        "-m",
        "enlcn",
        "upscale",
        "--device",
        "cpu",
        "-m",
        model,
        "--report",
        tmp_path / "r.json",
    ]
    done = subprocess.run([*command, source, "-o", tmp_path / "o.webm"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("left out") == 1
    assert done.stderr.index("left out") < done.stderr.index("o.webm:")  # before the work
    (entry,) = json.loads((tmp_path / "r.json").read_text())
    assert entry["notes"] == ["audio stream 1 (aac) cannot go into webm and was left out; .mkv may hold it"]
    assert "told" not in entry


def test_a_table_of_nothing_is_one_line(tmp_path):
    command = [sys.executable, "-m", "enlcn.video.stream_table"]
    for arguments, message in (([tmp_path / "none.mp4"], "none.mp4: no such file"), ([], "name the videos")):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_times():
    assert parse_time("--start", "1:30.5") == 90.5
    assert parse_time("--start", "1:00:01") == 3601
    assert parse_time("--start", "1.") == 1
    for bad in ("x", "-3", "1:2:3:4", "", "1/2", "1e999999999", "9" * 30, "1:-2"):
        with pytest.raises(UserError, match="--end is"):
            parse_time("--end", bad)
