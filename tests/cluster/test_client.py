"""A cluster by its address: through Ray's client, with the asking process killed and asked again."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs the cluster extra")

from tests.cluster.runs import ONE_THREAD, command, manifest, rows_so_far, write_model, write_pictures

COUNT = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    """The address of a cluster of its own, with a token of its own, and the environment that knows it."""
    (tmp_path / "token").write_text(secrets.token_hex(32))
    environment = ONE_THREAD | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    environment["RAY_USAGE_STATS_ENABLED"] = "0"
    client, port = 20000 + free_port() % 10000, free_port()
    ray = Path(sys.executable).with_name("ray")
    start = f"{ray} start --head --block --port {port} --ray-client-server-port {client} --num-cpus 2"
    folder = tempfile.mkdtemp(prefix="ray-")  # a short name: paths of sockets may have 107 bytes
    start += f" --object-store-memory 200000000 --include-dashboard false --temp-dir {folder}"
    head = subprocess.Popen(start.split(), env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", client)) == 0:
                    break
            time.sleep(0.1)
        yield f"ray://127.0.0.1:{client}", environment
    finally:
        os.killpg(head.pid, signal.SIGTERM)
        head.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_through_the_client_killed_and_resumed(tmp_path, cluster):
    address, environment = cluster
    model, out = write_model(tmp_path / "mini.safetensors"), tmp_path / "out"
    pictures = write_pictures(tmp_path / "in", COUNT)
    run = command("cluster", "upscale", pictures, "--out", out, "-m", model, "--address", address, "--chunk", 2)
    process = subprocess.Popen(run, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        while not (rows := rows_so_far(out)):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
    finally:
        process.kill()  # the asking process; workers may finish what they have
        process.wait()
    assert 0 < len(rows) < COUNT
    again = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=200)
    assert again.returncode == 0, again.stderr
    after = manifest(out)
    assert Counter(row["status"] for row in after) == {"done": COUNT}
    assert len({row["output"] for row in after}) == COUNT == len(list(out.rglob("*.png")))
    first = {row["output"]: row for row in rows}
    assert all(row == first[row["output"]] for row in after if row["output"] in first)  # not done again
    lost = next(out.rglob("*.png"))
    content = lost.read_bytes()
    lost.unlink()
    third = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=200)
    assert f"1 done, {COUNT - 1} skipped" in third.stderr
    assert lost.read_bytes() == content
