"""Two processes do what one does on the same global batch; a process that dies does not take the run with it."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from enlcn.data.patches import DevicePatches
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.train.config import OPTIMIZERS
from enlcn.train.distributed import Ranks, choose_device
from enlcn.train.loop import sampling_of
from enlcn.train.snapshot import RunFolder, load_snapshot
from enlcn.train.start import Job, train
from enlcn.train.step import TrainStep
from tests.data.test_patches import make_set
from tests.train.conftest import COMMAND, TINY, as_options

CPU = torch.device("cpu")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
CONFIG = replace(TINY, optimizer=replace(TINY.optimizer, clip_norm=None))
NUM_STEPS = 3
ENDLESS = replace(TINY, total_steps=10**6, cadence=replace(TINY.cadence, checkpoint=2, validate=0))
in_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds its processes in /proc")

# Each process saves its loss, its gradients and its F after NUM_STEPS steps.
PROBE = """
import sys, torch
from tests.train.test_distributed import take_steps
from enlcn.train.distributed import processes
with processes("cpu") as ranks:
    torch.save(take_steps(ranks, sys.argv[2]), f"{sys.argv[1]}/rank-{ranks.rank}.pt")
"""


def take_steps(ranks, kind):
    """By Adam from images made beforehand; by Muon from crops at any offset, shrunk, their colours swapped, noisy."""
    torch.manual_seed(ranks.rank)  # different weights and F: both must come out alike all the same
    config = replace(CONFIG, optimizer=replace(CONFIG.optimizer, kind=kind))
    if kind == "muon":
        varied = replace(config.data, any_offset=True, swap_colours=True, smallest_factor=0.7)
        varied = replace(varied, noise=10.0, jpeg_quality=30)
        config = replace(config, data=varied)
    config = replace(config, data=replace(config.data, crop=8))
    patches = DevicePatches(make_set(sizes=[(30, 26), (24, 40)]), sampling_of(config, ranks), ranks.device)
    state = TrainStep(SRNetwork(config.model), config, patches, ranks)
    for _ in range(NUM_STEPS):
        state.advance(1e-4, with_contrast=True)
    readings = state.read()
    return {
        "losses": torch.tensor([readings.loss, readings.contrastive]),
        "gradients": [p.grad.clone() for p in state.parameters],
        "weights": [p.detach().clone() for p in state.parameters],
        "projections": [attention.projection.clone() for attention in state.network.attentions],
    }


def environment():
    root = str(Path(__file__).parents[2])
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": root}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_loss_gradients_and_f_equal_the_single_process(tmp_path, kind):
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    subprocess.run([*TORCHRUN, str(probe), str(tmp_path), kind], check=True, env=environment(), timeout=600)
    alone = take_steps(Ranks(0, 1, CPU), kind)
    for rank in (0, 1):
        together = torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True)
        assert torch.allclose(together["losses"], alone["losses"], rtol=1e-5)
        for ours, theirs in zip(together["projections"], alone["projections"], strict=True):
            assert torch.equal(ours, theirs)
        for kind in ("gradients", "weights"):
            for ours, theirs in zip(together[kind], alone[kind], strict=True):
                assert (ours - theirs).norm() <= 1e-4 * theirs.norm() + 1e-7


def processes_of_rank(rank, out):
    """Process ids of the job in folder `out` with that rank."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if f"RANK={rank}".encode() in variables and str(out).encode() in command:
            found.append(int(folder.name))
    return found


def begin(tmp_path, pictures, cache):
    """A job of two processes that would never end, once its first checkpoint is there."""
    out = tmp_path / "run"
    script = tmp_path / "command.py"
    script.write_text(COMMAND[-1])
    options = ["cpu-x2", "--data", str(pictures), "--out", str(out), "--cache", str(cache), "--device", "cpu"]
    job = subprocess.Popen(
        [*TORCHRUN, str(script), *options, *as_options(ENDLESS)],
        env=environment(),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not RunFolder(out).last.exists():
        assert job.poll() is None, job.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return job, out


@in_linux
@pytest.mark.parametrize("victim", [1, 0])
def test_a_killed_process_ends_the_job_with_a_message_and_a_usable_checkpoint(tmp_path, pictures, cache, victim):
    job, out = begin(tmp_path, pictures, cache)
    (process,) = processes_of_rank(victim, out)
    os.kill(process, signal.SIGKILL)
    _, errors = job.communicate(timeout=600)
    assert job.returncode != 0
    if victim == 1:
        assert "a process of this job failed after step" in errors
        assert "run the same command to go on" in errors.replace("\n", " ")

    reached = load_snapshot(RunFolder(out).last).step
    assert reached >= 2
    further = replace(ENDLESS, total_steps=reached + 3)
    outcome = train(Job(further, pictures, out, cache=cache, device="cpu", tensorboard=False))
    assert outcome.step == reached + 3


@in_linux
@pytest.mark.parametrize("told", [1, 0])
def test_a_signal_to_one_process_stops_all_after_the_same_step(tmp_path, pictures, cache, told):
    job, out = begin(tmp_path, pictures, cache)
    (process,) = processes_of_rank(told, out)
    os.kill(process, signal.SIGTERM)
    output, errors = job.communicate(timeout=600)
    assert "failed after step" not in errors
    assert re.search(r"exitcode\s*: 143 ", errors), errors  # as torchrun tells it
    (line,) = (line for line in output.splitlines() if "to go on" in line)  # the main process alone speaks
    reached = load_snapshot(RunFolder(out).last).step
    assert line == f"stopped; run the same command to go on from step {reached}"
    assert reached % 10 == 0


def test_devices_are_checked():
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type in ("cpu", "cuda")
    for name in ("meta", "mps", "xpu", "cuda:77", "nonsense"):
        with pytest.raises(UserError, match=f"device '{name}' cannot be"):
            choose_device(name)
