"""A run that was cut off anywhere ends like one that was not, to the last bit."""

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from shutil import copytree

import pytest
import torch
from safetensors.torch import load_file

from enlcn.errors import UserError
from enlcn.train.config import OPTIMIZERS
from enlcn.train.snapshot import RunFolder, load_snapshot
from enlcn.train.start import Job, train
from enlcn.train.stopping import StopRequest
from tests.train.conftest import COMMAND, TINY, as_options, write_pictures

SIXTY = replace(TINY, total_steps=60, cadence=replace(TINY.cadence, log=1, validate=25, checkpoint=4))


def start_process(out, pictures, cache, config=SIXTY, *more):
    options = ["cpu-x2", "--data", str(pictures), "--out", str(out), "--cache", str(cache), "--device", "cpu", *more]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*COMMAND, *options, *as_options(config)], env=environment, stderr=subprocess.PIPE, text=True
    )


def finish(process):
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors


def step_reached(out):
    path = out / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[-1])["step"] if lines and lines[-1].endswith("}") else 0


def wait_for_step(process, out, step):
    deadline = time.monotonic() + 120
    while step_reached(out) < step:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.002)


def assert_same_state(first, second):
    """Everything a checkpoint holds, bit for bit; only the clock may differ."""
    a, b = (load_snapshot(RunFolder(path).last) for path in (first, second))
    assert (a.config, a.step, a.skipped, a.best_psnr, a.data_key) == (
        b.config,
        b.step,
        b.skipped,
        b.best_psnr,
        b.data_key,
    )
    assert a.network.keys() == b.network.keys()
    assert all(torch.equal(a.network[name], b.network[name]) for name in a.network)
    assert all(torch.equal(x, y) for x, y in zip(a.average, b.average, strict=True))
    assert a.optimizers.keys() == b.optimizers.keys()
    for optimizer, states in a.optimizers.items():
        for number, moments in states["state"].items():
            for name, value in moments.items():
                assert torch.equal(value, b.optimizers[optimizer]["state"][number][name])
    assert all(torch.equal(state, b.random_states[device]) for device, state in a.random_states.items())
    assert_same_model(first, second)


def assert_same_model(first, second):
    a, b = (load_file(path / "model.safetensors") for path in (first, second))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_killed_at_23_and_resumed_equals_60_in_one_go(tmp_path, pictures, cache, kind):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    config = replace(SIXTY, optimizer=replace(SIXTY.optimizer, kind=kind))
    finish(start_process(whole, pictures, cache, config))
    process = start_process(cut, pictures, cache, config)
    wait_for_step(process, cut, 23)
    process.send_signal(signal.SIGKILL)
    process.wait()
    reached = load_snapshot(RunFolder(cut).last).step
    assert 20 <= reached < 60
    assert not (cut / "model.safetensors").exists()

    finish(start_process(cut, pictures, cache, config))
    assert_same_state(whole, cut)
    assert ("muon" in load_snapshot(RunFolder(cut).last).optimizers) == (kind == "muon")
    steps = [json.loads(line)["step"] for line in (cut / "metrics.jsonl").read_text().splitlines()]
    assert sorted(steps) == steps
    assert [s for s in steps if steps.count(s) > 1] == [25, 25, 50, 50, 60, 60]  # where it was validated, too


def test_the_clock_saves_where_steps_are_slow(tmp_path, pictures, cache):
    cadence = replace(SIXTY.cadence, checkpoint=0, validate=0, checkpoint_seconds=0.01)
    config = replace(SIXTY, total_steps=100_000, cadence=cadence)
    process = start_process(tmp_path / "run", pictures, cache, config)
    wait_for_step(process, tmp_path / "run", 40)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert load_snapshot(RunFolder(tmp_path / "run").last).step > 0


def test_asked_to_stop_it_finishes_the_step_and_saves(tmp_path, pictures, cache):
    process = start_process(tmp_path / "run", pictures, cache, replace(SIXTY, total_steps=100_000))
    wait_for_step(process, tmp_path / "run", 3)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGTERM
    stopped_at = load_snapshot(RunFolder(tmp_path / "run").last).step
    assert stopped_at == step_reached(tmp_path / "run")


def test_a_longer_run_continues_a_shorter_one_with_the_set_on_the_host(tmp_path, pictures, cache):
    """Where the schedule does not know its end, 5 steps and 7 more are 12."""
    config = replace(
        TINY,
        total_steps=12,
        data=replace(TINY.data, placement="host"),
        schedule=replace(TINY.schedule, kind="constant"),
    )
    job = Job(config, pictures, tmp_path / "whole", cache=cache, device="cpu", tensorboard=False)
    train(job)
    for total_steps in (5, 12):
        train(replace(job, out=tmp_path / "cut", config=replace(config, total_steps=total_steps)))
    assert_same_model(tmp_path / "whole", tmp_path / "cut")


def test_a_run_older_than_some_settings_goes_on(tmp_path, pictures, cache):
    job = Job(replace(TINY, total_steps=3), pictures, tmp_path / "run", cache=cache, device="cpu", tensorboard=False)
    train(job)
    last = RunFolder(job.out).last
    content = torch.load(last, weights_only=True)
    config = json.loads(content["config"])
    del config["loss"]["pixel"]
    for name in ("block", "block_width", "block_kernel"):
        del config["model"][name]
    for name in ("any_offset", "swap_colours", "smallest_factor", "candidates", "by_area", "noise", "jpeg_quality"):
        del config["data"][name]
    for name in ("kind", "momentum", "inner_factor", "residual_factor"):
        del config["optimizer"][name]
    torch.save({**content, "config": json.dumps(config)}, last)
    assert train(replace(job, config=replace(job.config, total_steps=5))).step == 5


def test_another_run_is_not_overwritten(tmp_path, pictures, cache):
    job = Job(replace(TINY, total_steps=5), pictures, tmp_path / "run", cache=cache, device="cpu", tensorboard=False)
    train(job)
    with pytest.raises(UserError, match=r"other settings; .* go on with it by --set data.crop=10$"):
        train(replace(job, config=replace(job.config, data=replace(TINY.data, crop=9))))
    with pytest.raises(UserError, match="holds a run already"):
        train(replace(job, resume=False))
    copytree(job.out, tmp_path / "before")
    assert train(job).step == 5
    assert_same_state(job.out, tmp_path / "before")


def test_what_changes_when_a_run_goes_on_is_told(tmp_path, pictures, cache, caplog):
    caplog.set_level("INFO", "enlcn")
    job = Job(replace(TINY, total_steps=5), pictures, tmp_path / "run", cache=cache, device="cpu", tensorboard=False)
    train(job)
    train(replace(job, config=replace(TINY, total_steps=5)))
    assert "instead of" not in caplog.text, "nothing has changed"
    longer = replace(job, config=replace(TINY, total_steps=9), init=tmp_path / "run")
    best = train(longer).best_psnr
    assert "with another number of steps the learning rate goes on at 0.000826 instead of 0" in caplog.text
    assert "--init is left aside" in caplog.text
    assert "begins anew" not in caplog.text
    write_pictures(tmp_path / "noisy", count=1, size=(40, 44))
    outcome = train(replace(job, config=replace(TINY, total_steps=12), validation=tmp_path / "noisy"))
    assert "the held-out images differ from those this run was validated on: the best PSNR begins anew" in caplog.text
    assert outcome.best_psnr == outcome.psnr != best
    assert "trained on, too" not in caplog.text
    train(replace(job, config=replace(TINY, total_steps=13), validation=pictures / "train"))
    assert "5 of 5 images to validate on are trained on, too" in caplog.text


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            assert stop.signal == signal.SIGTERM
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_damaged_checkpoint_is_named(tmp_path, pictures, cache):
    folder = RunFolder(tmp_path / "run")
    folder.checkpoints.mkdir(parents=True)
    folder.last.write_bytes(b"rubbish")
    with pytest.raises(UserError, match=r"last\.pt: not a readable training checkpoint"):
        train(Job(TINY, pictures, folder.path, cache=cache, device="cpu"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": None}, r"last\.pt: training checkpoint of version unknown, this program reads"),
        (
            {"config": '{"later": 1}'},
            r"last\.pt: not a .* checkpoint that this program knows .unknown setting 'later'",
        ),
        ({"later": 1}, r"last\.pt: not a training checkpoint that this program knows .*later"),
    ],
)
def test_a_checkpoint_of_another_program_is_named(tmp_path, pictures, cache, change, message):
    job = Job(TINY, pictures, tmp_path / "run", cache=cache, device="cpu", tensorboard=False)
    train(job)
    path = RunFolder(job.out).last
    content = torch.load(path, weights_only=True) | change
    torch.save({name: value for name, value in content.items() if value is not None or name != "version"}, path)
    with pytest.raises(UserError, match=message):
        train(job)


def test_checkpoints_from_when_there_was_adam_alone_go_on(tmp_path, pictures, cache):
    job = Job(TINY, pictures, tmp_path / "run", cache=cache, device="cpu", tensorboard=False)
    train(job)
    path = RunFolder(job.out).last
    content = torch.load(path, weights_only=True)
    content |= {"version": 1, "optimizer": content.pop("optimizers")["adam"]}
    torch.save(content, path)
    assert train(replace(job, config=replace(TINY, total_steps=25))).step == 25
