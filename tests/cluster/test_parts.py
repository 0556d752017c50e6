"""The parts of a cluster run that need no Ray: names, storage, manifest, marks, errors in one line."""

import json
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

fsspec = pytest.importorskip("fsspec", reason="needs the cluster extra")

from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.cluster.attempts import Attempts
from enlcn.cluster.manifest import Manifest, Row
from enlcn.cluster.plan import plan_cluster
from enlcn.cluster.presence import FOLDER as RUNNING
from enlcn.cluster.presence import at_work
from enlcn.cluster.storage import (
    absolute,
    files_under,
    open_storage,
    read_bytes,
    remove_leftovers_beside,
    with_retries,
    write_bytes,
)
from enlcn.errors import UserError
from enlcn.files import atomic_write
from tests.cluster.runs import rows_so_far, write_model


@pytest.fixture
def bucket():
    """An empty folder of fsspec's memory file system, which is an object store in small."""
    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    return "memory://bucket"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("in/a.jpg", "in/deep/b.PNG", "in/scan.tif", "in/notes.txt", "in/.hidden.png", "in/.git/x.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(inputs, out="out", **options):
    tasks = plan_cluster(inputs, out, **options)
    root = absolute(".")
    return {task.source.removeprefix(f"{root}/"): task.target.removeprefix(f"{root}/") for task in tasks}


def test_names_are_those_of_upscale(tree):
    expected = {"in/a.jpg": "out/a.png", "in/deep/b.PNG": "out/deep/b.png", "in/scan.tif": "out/scan.tif"}
    assert planned(["in"]) == expected
    assert planned([f"file://{tree}/in"], f"file://{tree}/out") == expected
    assert planned(["in/*.jpg", "in/a.jpg"], format="webp", suffix="_x4") == {"in/a.jpg": "out/a_x4.webp"}
    (tree / "in" / "a.png").write_bytes(b"")
    assert planned(["in"])["in/a.jpg"] == "out/a_jpg.png"
    (tree / "in" / "out").mkdir()
    (tree / "in" / "out" / "a.png").write_bytes(b"")
    assert not any(name.startswith("in/out") for name in planned(["in"], "in/out"))


def test_no_way_goes_up_and_down_again(tree):
    (tree / "other" / "far").mkdir(parents=True)
    (tree / "link").symlink_to(tree / "other" / "far")
    expected = {"in/a.jpg": "out/a.png", "in/deep/b.PNG": "out/deep/b.png", "in/scan.tif": "out/scan.tif"}
    assert planned(["in/../in"], "in/../out") == expected
    assert planned([f"file://{tree}/in/../in"], f"file://{tree}/in/deep/../../out") == expected
    assert planned(["in/../in/*.jpg"], "link/../out") == {"in/a.jpg": "other/out/a.png"}
    assert absolute("link") == f"{absolute('.')}/link"
    with pytest.raises(UserError, match="all inputs lie in the folder of the results"):
        planned(["in"], "out/../in")


@pytest.mark.parametrize(
    ("inputs", "out", "message"),
    [
        (["gone"], "out", "gone: no such file or folder"),
        (["in/notes.txt"], "out", "no pictures found"),
        (["in"], "in", "all inputs lie in the folder of the results"),
        (["in"], "zip://in", "Is a directory"),
        (["in"], "memory://x", "no worker can see it"),
        (["in"], "nonsense://x", "nonsense"),
        (["in"], "s3://x/y", "s3:// needs another package here and on every worker: pip install s3fs"),
    ],
)
def test_impossible_plans(tree, inputs, out, message, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "s3fs", None)
    with pytest.raises(UserError, match=message):
        plan_cluster(inputs, out)


@pytest.mark.parametrize("place", ["memory", "local"])
def test_writes_are_whole_and_replace(place, bucket, tmp_path):
    url = f"{bucket}/deep/x.bin" if place == "memory" else str(tmp_path / "deep" / "x.bin")
    write_bytes(url, b"one")
    write_bytes(url, b"three")
    assert read_bytes(url) == b"three"
    folder = url.rpartition("/")[0]
    assert files_under(folder) == {open_storage(url)[1]: 5}
    assert files_under(f"{folder}/none") == {}


def test_what_a_killed_writer_left_is_removed_and_nothing_else(bucket, tmp_path):
    """A killed process's file goes; one that is still being written, results and files of other folders stay."""
    killed_while_writing = """
import os, pathlib, signal, sys
from enlcn.files import atomic_write
with atomic_write(pathlib.Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for folder in ("out", "other"):
        subprocess.run([sys.executable, "-c", killed_while_writing, tmp_path / folder / "dead.png"], check=False)
    write_bytes(f"{bucket}/result.png", b"data")
    write_bytes(str(tmp_path / "out" / "result.png"), b"data")
    with atomic_write(tmp_path / "out" / "living.png") as living:
        remove_leftovers_beside([absolute(str(tmp_path / "out" / "result.png")), f"{bucket}/result.png"])
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"result.png", living.name}
    assert len(list((tmp_path / "other").iterdir())) == 1
    assert read_bytes(f"{bucket}/result.png") == b"data"


def test_other_file_systems_are_written_beside_and_moved(tmp_path, monkeypatch):
    """fsspec's DirFileSystem is neither local to us nor an object store."""
    inner = fsspec.filesystem("dir", path=str(tmp_path), fs=fsspec.filesystem("file"))
    monkeypatch.setattr("enlcn.cluster.storage.open_storage", lambda url: (inner, url))
    write_bytes("sub/x.bin", b"data")
    assert (tmp_path / "sub" / "x.bin").read_bytes() == b"data"
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["x.bin"]


def test_storage_is_asked_again_only_where_that_can_help(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    calls = []

    def failing(error, times):
        def action():
            calls.append(1)
            if len(calls) <= times:
                raise error
            return "there"

        calls.clear()
        return action

    assert with_retries(failing(OSError("busy"), 2), 2) == "there"
    with pytest.raises(OSError, match="busy"):
        with_retries(failing(OSError("busy"), 3), 2)
    with pytest.raises(FileNotFoundError):
        with_retries(failing(FileNotFoundError("gone"), 1), 2)
    assert len(calls) == 1


def test_files_that_cannot_be_written_are_tried_again_only_where_that_can_help(tmp_path, monkeypatch, full_disk):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    (tmp_path / "text").touch()
    with pytest.raises(UserError, match="is a file, not a folder"):
        write_bytes(str(tmp_path / "text" / "a.png"), b"", retries=2)
    assert slept == []
    with full_disk(), pytest.raises(UserError, match=r"a\.png: cannot be written \(File too large\)"):
        write_bytes(str(tmp_path / "a.png"), bytes(5000), retries=2)
    assert slept == [1, 2]


def test_the_manifest_remembers(bucket):
    settings = {"model": "m", "size": [2.0, None, None]}
    first = Manifest(bucket)
    assert first.open(settings, overwrite=False) is False
    write_bytes(f"{bucket}/a.png", b"12345")
    first.add(Row("in/a", f"{bucket}/a.png", "done", bytes=5))
    first.add(Row("in/b", f"{bucket}/b.png", "failed", "broken"))
    first.flush()
    write_bytes(
        f"{bucket}/.enlcn-cluster/.rows-half.host-1-a.jsonl", b'{"input": "in/c", "outp'
    )  # and then it is killed
    second = Manifest(bucket)
    assert second.open(settings, overwrite=False) is True
    sizes = files_under(bucket)
    assert second.is_done(f"{bucket}/a.png", sizes)
    assert not second.is_done(f"{bucket}/b.png", sizes)
    write_bytes(f"{bucket}/a.png", b"1234")  # shortened by someone
    assert not second.is_done(f"{bucket}/a.png", files_under(bucket))
    second.add(Row("in/b", f"{bucket}/b.png", "done", bytes=1))
    path = second.close([f"{bucket}/b.png", f"{bucket}/a.png"])
    rows = [json.loads(line) for line in read_bytes(path).decode().splitlines()]
    assert [(row["input"], row["status"]) for row in rows] == [("in/b", "done"), ("in/a", "done")]
    assert list(files_under(f"{bucket}/.enlcn-cluster")) == ["/bucket/.enlcn-cluster/settings.json"]
    with pytest.raises(UserError, match="made with another model; pass --overwrite"):
        Manifest(bucket).open(settings | {"model": "n"}, overwrite=False)
    fresh = Manifest(bucket)
    assert fresh.open(settings | {"model": "n"}, overwrite=True) is False
    assert fresh.rows == {}
    # Killed before the first row: what the old settings made is not done under the new ones.
    resumed = Manifest(bucket)
    assert resumed.open(settings | {"model": "n"}, overwrite=False) is True
    assert resumed.rows == {}


def test_rows_of_a_run_elsewhere_are_kept(bucket, caplog):
    """Two machines, one folder: this one is told, and both end with all rows."""
    settings = {"model": "m"}
    first = Manifest(bucket)
    first.open(settings, overwrite=False)
    elsewhere = {"host": "elsewhere", "process": 1, "seen": time.time()}
    write_bytes(f"{bucket}/{RUNNING}/{first.run}.json", json.dumps(elsewhere).encode())
    first.add(Row("in/a", f"{bucket}/a.png", "done"))
    first.flush()
    second = Manifest(bucket)
    with at_work(bucket, second.run):
        second.open(settings, overwrite=False)
        second.add(Row("in/b", f"{bucket}/b.png", "done"))
        second.flush()
        first.add(Row("in/c", f"{bucket}/c.png", "done"))
        first.flush()
        path = second.close([f"{bucket}/b.png"])
    assert "a run on elsewhere was at work here a short while ago" in caplog.text
    assert {json.loads(line)["input"] for line in read_bytes(path).decode().splitlines()} == {"in/a", "in/b", "in/c"}
    first.add(Row("in/d", f"{bucket}/d.png", "done"))
    path = first.close([])
    assert {json.loads(line)["input"][-1] for line in read_bytes(path).decode().splitlines()} == set("abcd")


def test_marks_of_the_dead_are_no_hindrance(bucket):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name, facts in {
        "dead": {"host": socket.gethostname(), "process": dead.pid, "seen": time.time()},
        "long ago": {"host": "elsewhere", "process": 1, "seen": time.time() - 7200},
        "half": None,
    }.items():
        write_bytes(f"{bucket}/{RUNNING}/{name}.json", json.dumps(facts).encode() if facts else b'{"ho')
    with at_work(bucket, "new"):
        assert list(files_under(f"{bucket}/{RUNNING}")) == [f"/bucket/{RUNNING}/new.json"]
    assert files_under(f"{bucket}/{RUNNING}") == {}
    with pytest.raises(ZeroDivisionError), at_work(bucket, "new"):
        raise ZeroDivisionError
    assert files_under(f"{bucket}/{RUNNING}") == {}


def test_files_of_other_kinds_are_told(tree, caplog):
    for name in ("in/a.gif", "in/deep/b.heic", "in/.hidden.gif"):
        (tree / name).touch()
    plan_cluster(["in"], "out")
    assert "left out: 2 files of other kinds (.gif, .heic)" in caplog.text


def test_a_picture_over_which_workers_keep_dying_is_given_up(bucket):
    attempts = Attempts(bucket, retries=2)
    attempts.begin("bomb")
    attempts.begin("other")
    attempts.finish("other")
    attempts.begin("bomb")
    with pytest.raises(UserError, match="bomb: given up, 3 workers died over it"):
        attempts.begin("bomb")
    attempts.begin("other")


def test_a_picture_without_retries_is_given_up_at_the_second_death(bucket):
    attempts = Attempts(bucket, retries=0)  # of a worker that took a dead one's place
    attempts.begin("first")
    attempts.finish("first")
    attempts.begin("bomb")
    with pytest.raises(UserError, match="bomb: given up, 2 workers died over it"):
        attempts.begin("bomb")


def test_a_worker_puts_transparent_pictures_on_a_colour(tmp_path):
    from enlcn.cluster.worker import Worker, WorkerOptions
    from enlcn.upscaling.batch_options import BatchOptions
    from enlcn.upscaling.engine_options import EngineOptions
    from enlcn.upscaling.target import Target

    Image.new("RGBA", (9, 6), (10, 20, 30, 0)).save(tmp_path / "a.png")
    statuses = []
    for background in (None, (1.0, 1.0, 1.0)):
        batch = BatchOptions(
            Target(scale=2), "untrained:enlcn-tiny", EngineOptions(device="cpu"), background=background
        )
        worker = Worker(WorkerOptions(str(tmp_path), batch, None, "", 0, 1))
        statuses.append(worker.upscale(str(tmp_path / "a.png"), str(tmp_path / "a.jpg"), "jpeg").status)
    assert statuses == ["failed", "done"]
    assert Image.open(tmp_path / "a.jpg").getcolors() == [(18 * 12, (255, 255, 255))]


def test_a_worker_without_ray(tmp_path):
    """Its rows, for a good picture and a missing one."""
    import hashlib

    from enlcn.cluster.worker import Worker, WorkerOptions
    from enlcn.upscaling.batch_options import BatchOptions
    from enlcn.upscaling.engine_options import EngineOptions
    from enlcn.upscaling.target import Target

    pytest.importorskip("ray", reason="needs the cluster extra")
    Image.new("RGB", (20, 10), "red").save(tmp_path / "a.png")
    weights = write_model(tmp_path / "mini.safetensors").read_bytes()
    batch = BatchOptions(Target(scale=2), "gone.safetensors", EngineOptions(device="cpu"))
    worker = Worker(WorkerOptions(str(tmp_path), batch, weights, "gone.safetensors", 0, 1))
    out = tmp_path / "out.png"
    columns = worker({"source": [str(tmp_path / "a.png")], "target": [str(out)], "format": ["png"]})
    assert columns["status"] == ["done"]
    assert (columns["out_width"], columns["out_height"], columns["bytes"]) == ([40], [20], [out.stat().st_size])
    assert columns["sha256"] == [hashlib.sha256(out.read_bytes()).hexdigest()]
    missing = worker.upscale(str(tmp_path / "b.png"), str(tmp_path / "c.png"), "png")
    assert (missing.status, "b.png" in missing.error) == ("failed", True)


def test_a_model_that_workers_may_not_have_is_sent(tmp_path):
    from enlcn.cluster.run import _weights

    path = write_model(tmp_path / "run" / "model.safetensors")
    for model in (path, path.parent, f"file://{path}"):
        assert _weights(str(model)) == (path.read_bytes(), "model.safetensors")
    for model in (None, "enlcn-light-x4", "enlcn-light", "untrained:enlcn-tiny"):
        assert _weights(model) == (None, "")


def test_a_ray_that_gives_up_is_told_in_one_line_and_what_is_done_stays_known(tmp_path, monkeypatch):
    from enlcn.cluster import ClusterOptions, run, run_cluster
    from enlcn.upscaling.target import Target

    (tmp_path / "in").mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (20, 10), "red").save(tmp_path / "in" / name)
    tasks, out = plan_cluster([str(tmp_path / "in")], str(tmp_path / "out")), tmp_path / "out"

    def rows(execution):
        yield Row(tasks[0].source, tasks[0].target, "done")
        raise RuntimeError("the head is gone\nand much more")

    monkeypatch.setattr(run, "Connection", lambda options: nullcontext(SimpleNamespace(is_client=False)))
    monkeypatch.setattr(run, "_share", lambda options: (0.0, 1))
    monkeypatch.setattr(run.Execution, "rows", rows)
    options = ClusterOptions(Target(scale=2), str(write_model(tmp_path / "mini.safetensors")))
    with pytest.raises(UserError, match=r"Ray gave up \(RuntimeError: the head is gone\); 1 of 2 pictures are left"):
        run_cluster(tasks, str(out), options)
    assert [row["input"] for row in rows_so_far(out)] == [tasks[0].source]


def test_files_that_are_none_of_ours_stay(tmp_path):
    """A first run says so of every one, before any work; so does the next, though the folder now has a manifest."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    Image.new("RGB", (20, 10), "red").save(tmp_path / "in" / "a.png")
    (tmp_path / "out" / "a.png").write_bytes(b"precious")
    model = write_model(tmp_path / "mini.safetensors")
    run = ["cluster", "upscale", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "-m", str(model)]
    for _ in range(2):
        result = CliRunner().invoke(app, run)
        assert result.exit_code == 1
        assert "1 failed" in result.output
        (row,) = (tmp_path / "out" / "manifest.jsonl").read_text().splitlines()
        assert "exists already; pass --overwrite" in json.loads(row)["error"]
        assert (tmp_path / "out" / "a.png").read_bytes() == b"precious"


def test_errors_before_any_work(tree, tmp_path):
    def error(*arguments):
        result = CliRunner().invoke(app, ["cluster", "upscale", "in", "--out", "out", *map(str, arguments)])
        assert isinstance(result.exception, UserError), result.output
        return str(result.exception)

    assert "--workers is 0; it must be at least 1" in error("--workers", 0)
    assert "--runtime-env is no JSON" in error("--runtime-env", "{")
    assert "ray://127.0.0.1:9 cannot be reached" in error("--address", "ray://127.0.0.1:9")
    for value in (0, "nan", "inf"):
        assert "--cpus-per-worker is" in error("--cpus-per-worker", value)
    assert "--gpus-per-worker is nan" in error("--gpus-per-worker", "nan")
    for size in ((), ("--width", 40)):
        assert "gone.safetensors" in error("-m", "gone.safetensors", *size)
    assert "quality must lie between 1 and 100" in error("--quality", 500)
    assert "JPEG has no lossless mode" in error("--format", "jpeg", "--lossless")
    listed = CliRunner().invoke(app, ["cluster", "upscale", "in", "--out", "out", "--dry-run"])
    assert listed.exit_code == 0
    assert "deep/b.png" in listed.output.replace("\n", "")
    assert not (tree / "out" / "a.png").exists()
