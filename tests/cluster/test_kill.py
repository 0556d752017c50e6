"""A real Ray on this machine with two workers, one of them killed in the middle: every picture arrives once."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the cluster extra")

from tests.cluster.runs import ONE_THREAD, command, manifest, process_of, rows_so_far, write_model, write_pictures

COUNT = 60


def process_state(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]


def kill_while_it_writes(worker, out):
    """Stop a worker again and again until it stands still with a half-written file; then it dies."""
    deadline, rng = time.monotonic() + 240, random.Random(0)
    while time.monotonic() < deadline:
        os.kill(worker, signal.SIGSTOP)
        while (state := process_state(worker)) not in "Tt":
            assert state not in "ZX", "the worker has ended"
            time.sleep(0.0005)
        if list(out.rglob(f".*-{worker}-*.png")):
            break
        os.kill(worker, signal.SIGCONT)
        time.sleep(rng.uniform(0.0005, 0.02))  # long enough to get on where others want the cores
    else:
        pytest.fail("the worker never wrote")
    os.kill(worker, signal.SIGKILL)


def test_it_stops_when_told_and_nobody_else_is_let_in_before(tmp_path):
    """SIGTERM, which schedulers send and Ray would take for itself."""
    model, out = write_model(tmp_path / "mini.safetensors"), tmp_path / "out"
    pictures = write_pictures(tmp_path / "in", COUNT)
    run = command("cluster", "upscale", pictures, "--out", out, "-m", model, "--workers", 1, "--chunk", 1)
    process = subprocess.Popen(run, env=ONE_THREAD, stderr=subprocess.PIPE, text=True)
    try:
        while not rows_so_far(out):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        second = subprocess.run(run, env=ONE_THREAD, capture_output=True, text=True, timeout=600)
        assert process.poll() is None, "it had ended before the second one asked"
        process.terminate()
        _, told = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert second.returncode == 2
    assert f"another run is at work here (process {process.pid} of this machine)" in second.stderr
    assert process.returncode == 130, told
    assert told.endswith("interrupted: run it again to go on\n")
    assert "SIGTERM received" not in told
    before = {row["output"] for row in rows_so_far(out)}
    again = subprocess.run(run, env=ONE_THREAD, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert before
    assert len(manifest(out)) == COUNT
    assert sorted(path.name for path in out.rglob("*.png")) == sorted(path.name for path in pictures.rglob("*.png"))


def test_a_worker_killed_in_the_middle(tmp_path):
    model, out, single = write_model(tmp_path / "mini.safetensors"), tmp_path / "out", tmp_path / "single"
    pictures = write_pictures(tmp_path / "in", COUNT)
    (pictures / "bad.jpg").write_bytes(b"this is no picture")
    alone = command("upscale", pictures, "-o", single, "-m", model, "--device", "cpu")
    assert subprocess.run(alone, env=ONE_THREAD, capture_output=True, timeout=600).returncode == 1  # the bad one
    run = command("cluster", "upscale", pictures, "--out", out, "-m", model, "--workers", 2, "--chunk", 4)
    process = subprocess.Popen(run, env=ONE_THREAD, stderr=subprocess.PIPE, text=True)
    try:
        while not (rows := rows_so_far(out)):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        assert len(rows) < COUNT
        kill_while_it_writes(process_of(rows[0]), out)
        _, told = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, told
    assert f"{COUNT} done, 1 failed" in told
    after = manifest(out)
    assert Counter(row["status"] for row in after) == {"done": COUNT, "failed": 1}
    assert max(Counter(row["output"] for row in after).values()) == 1
    workers = {process_of(row) for row in after}
    assert process_of(rows[0]) in workers  # what it had finished counts
    assert len(workers) == 3, "two workers, and one in place of the dead"
    expected = {path.relative_to(single): path.read_bytes() for path in single.rglob("*.png")}
    assert len(expected) == COUNT
    assert sorted(path.relative_to(out) for path in out.rglob("*.png")) == sorted(expected), "and nothing half written"
    assert all((out / path).read_bytes() == data for path, data in expected.items())
    (failed,) = [row for row in after if row["status"] == "failed"]
    assert "bad.jpg: not an image" in failed["error"]

    # Nothing is left to do once the bad one is gone; Ray is not even started.
    (pictures / "bad.jpg").unlink()
    again = subprocess.run(run, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert f"{COUNT} skipped" in again.stderr
