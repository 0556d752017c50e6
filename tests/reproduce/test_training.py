"""Runs: scored as `enlcn evaluate` scores, the same whether interrupted or trained in other processes, kept once."""

import functools
import json
import operator
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from enlcn.checkpoint import load
from enlcn.evaluate import evaluate
from enlcn.reproduce import rows
from enlcn.reproduce.material import HELD_OUT
from enlcn.reproduce.plan import MIN_STEPS, kind_of, steps_within
from enlcn.reproduce.rows import RunSpec, config_of, key_of, specs
from enlcn.reproduce.store import Store
from enlcn.reproduce.training import perform
from enlcn.reproduce.workers import Work, train_all
from enlcn.train.snapshot import RunFolder, load_snapshot
from tests.reproduce.conftest import PRESET

NEVER = float("inf")
STEPS = 6


def key(spec, steps=STEPS):
    return key_of(config_of(spec, PRESET, steps))


def test_a_run_is_trained_scored_and_kept(tmp_path, material):
    store, spec = Store(tmp_path), RunSpec(rows.FULL, 0)
    assert perform(spec, PRESET, STEPS, material, store, NEVER)
    run = store.run(key(spec))
    assert (run["steps"], run["seed"], run["recipe"]) == (STEPS, 0, rows.FULL)
    assert set(run["psnr"]) == {"Set5", HELD_OUT}
    assert run["estimate"]["output"] > 0
    # The kept network, half as precise, scores the same by the package's own evaluation.
    network = load(store.weights(key(spec)))
    measured = evaluate({"ours": network}, [material.sources.data / "benchmarks"], 4, device="cpu")
    assert measured.mean("ours", "Set5").psnr_y == pytest.approx(run["psnr"]["Set5"], abs=0.02)
    assert not store.training(key(spec)).exists()
    written = (tmp_path / "runs" / f"{key(spec)}.json").stat().st_mtime_ns
    assert perform(spec, PRESET, STEPS, material, store, NEVER)
    assert (tmp_path / "runs" / f"{key(spec)}.json").stat().st_mtime_ns == written


def test_an_interrupted_run_ends_as_if_it_had_not_been(tmp_path, material, monkeypatch):
    spec, steps = RunSpec(rows.FULL, 1), 60
    whole, cut = Store(tmp_path / "whole"), Store(tmp_path / "cut")
    assert perform(spec, PRESET, steps, material, whole, NEVER)
    now = [0.0]
    with monkeypatch.context() as patch:  # a clock by which the time is up when a third of the steps is told
        patch.setattr("enlcn.reproduce.training.time", SimpleNamespace(time=lambda: now[0], monotonic=time.monotonic))
        tick = functools.partial(operator.setitem, now, 0)
        assert not perform(spec, PRESET, steps, material, cut, steps / 3, on_step=tick)
    stopped_at = load_snapshot(RunFolder(cut.training(key(spec, steps))).last).step
    assert steps / 3 <= stopped_at < steps
    assert cut.run(key(spec, steps)) is None
    assert perform(spec, PRESET, steps, material, cut, NEVER)
    assert cut.run(key(spec, steps))["psnr"] == whole.run(key(spec, steps))["psnr"]


def test_several_processes_find_what_one_finds(tmp_path, material, sources):
    runs = specs([rows.BASE, rows.ENLA], seeds=2)
    for name, jobs in (("one", 1), ("two", 2)):
        done = []
        work = Work(PRESET, STEPS, sources, "cpu", tmp_path / name, NEVER, threads=1, jobs=jobs)
        assert train_all(runs, work, material, on_done=lambda done=done: done.append(1)) == []
        assert len(done) == 4
    for spec in runs:
        alone, together = (Store(tmp_path / name).run(key(spec)) for name in ("one", "two"))
        assert alone["psnr"] == together["psnr"]
    scores = {json.dumps(Store(tmp_path / "one").run(key(spec))["psnr"]) for spec in runs}
    assert len(scores) == 4  # seeds and rows differ


def test_a_run_that_fails_does_not_stop_the_others(tmp_path, material, sources, caplog):
    preset = replace(PRESET, crop=8)
    work = Work(preset, STEPS, sources, "cpu", tmp_path, NEVER)
    bad, good = RunSpec("no-such-recipe", 0), RunSpec(rows.BASE, 0)
    store = Store(tmp_path)
    from enlcn.reproduce import workers

    assert not workers._attempt(bad, work, material)
    assert "no-such-recipe" in caplog.text
    assert workers._attempt(good, work, material)
    assert store.run(key(good)) is not None


def test_nothing_is_begun_after_the_deadline(tmp_path, material, sources):
    runs = specs([rows.BASE], seeds=2)
    work = Work(PRESET, STEPS, sources, "cpu", tmp_path, time.time() - 1)
    assert train_all(runs, work, material) == runs


def test_steps_fill_the_budget(material):
    runs = specs([rows.BASE, rows.FULL, rows.EFFICIENCY["ENLCA-m256"]], seeds=2)
    few, trials = steps_within(runs, PRESET, 0.01, material)
    assert few == MIN_STEPS
    assert set(trials) == {"none", "enlca", "enlca, m 256"}
    seconds = 40.0
    many, trials = steps_within(runs, PRESET, seconds, material)
    used = [trials[kind_of(config_of(spec, PRESET, 1000))] for spec in runs]
    predicted = sum(many * trial.step + trial.scoring for trial in used)
    assert 0.85 * seconds < predicted <= seconds
