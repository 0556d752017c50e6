import io
import json
import signal
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import copyfile
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

import enlcn
from enlcn.data.degradation import Degradation
from enlcn.data.shards import find_images
from enlcn.errors import MissingExtraError, UserError
from enlcn.models.backbone import SRNetwork
from enlcn.train.distributed import Ranks
from enlcn.train.reporting import read_records
from enlcn.train.snapshot import RunFolder, load_snapshot
from enlcn.train.start import Job, train
from enlcn.train.step import TrainStep
from enlcn.train.validation import VALIDATION_SEED, load_held_out, validate
from enlcn.train.warm_start import network_of
from tests.train.conftest import TINY, write_pictures

CPU = torch.device("cpu")


@pytest.fixture
def job(tmp_path, pictures, cache):
    return Job(TINY, pictures, tmp_path / "run", cache=cache, device="cpu", tensorboard=False)


def records(job, event):
    return [record for record in read_records(job.out / "metrics.jsonl") if record["event"] == event]


def test_a_run_learns_and_leaves_a_network_that_loads(job):
    config = replace(TINY, total_steps=120, cadence=replace(TINY.cadence, validate=40, keep=50))
    outcome = train(replace(job, config=config))
    assert outcome.step == 120
    losses = [record["loss"] for record in records(job, "train")]
    assert losses[-1] < losses[0] / 3
    scores = [record["psnr"] for record in records(job, "validation")]
    assert len(scores) == 3
    assert outcome.best_psnr == max(scores)
    assert scores[-1] > scores[0]
    names = sorted(path.name for path in (job.out / "checkpoints").iterdir())
    assert names == ["best.pt", "last.pt", "step-100.pt", "step-50.pt"]
    assert load_snapshot(job.out / "checkpoints" / "step-50.pt").step == 50
    assert load_snapshot(job.out / "checkpoints" / "best.pt").best_psnr == max(scores)

    network = enlcn.load(job.out / "model.safetensors")
    held_out = load_held_out(find_images(job.data, "held-out"), 2)
    assert validate(network, held_out, CPU).psnr == pytest.approx(scores[-1], abs=1e-6)
    averaged = network_of(RunFolder(job.out).last)
    assert all(torch.equal(a, b) for a, b in zip(averaged.parameters(), network.parameters(), strict=True))
    assert json.loads((job.out / "config.json").read_text())["data"]["crop"] == 10


def test_what_is_trained_on_degraded_images_is_validated_on_such(job):
    data = replace(TINY.data, noise=10.0, jpeg_quality=30)
    train(replace(job, config=replace(TINY, data=data, total_steps=20, seed=5)))
    (score,) = (record["psnr"] for record in records(job, "validation"))
    network, files = enlcn.load(job.out / "model.safetensors"), find_images(job.data, "held-out")
    degrade = Degradation.of(data, VALIDATION_SEED, CPU)
    assert validate(network, load_held_out(files, 2, degrade=degrade), CPU).psnr == pytest.approx(score, abs=1e-6)
    assert validate(network, load_held_out(files, 2), CPU).psnr != pytest.approx(score, abs=1e-3)


def test_a_full_disk_is_told_in_one_line(job, full_disk):
    config = replace(TINY, cadence=replace(TINY.cadence, checkpoint=20))
    train(replace(job, config=config))
    before = (job.out / "checkpoints" / "last.pt").read_bytes()
    longer = replace(config, total_steps=40)
    with full_disk(10_000), pytest.raises(UserError, match=r"last\.pt: cannot be written \(File too large\)"):
        train(replace(job, config=longer))
    assert (job.out / "checkpoints" / "last.pt").read_bytes() == before
    assert train(replace(job, config=longer)).step == 40


def test_records_hold_what_the_line_shows(job):
    train(job)
    record = records(job, "train")[-1]
    assert {"step", "loss", "contrastive", "learning_rate", "images_per_second", "elapsed", "skipped"} <= set(record)
    assert records(job, "train")[0]["contrastive"] < record["contrastive"]  # it began at step 4 of the first 5
    assert record["seconds_left"] == 0


@pytest.fixture
def steady_clock(monkeypatch):
    """A clock by which a step takes a twentieth of a second and all else nothing."""
    now, advance = [100.0], TrainStep.advance

    def timed(self, *arguments, **options):
        now[0] += 0.05
        advance(self, *arguments, **options)

    monkeypatch.setattr(TrainStep, "advance", timed)
    for module in ("loop", "start"):
        monkeypatch.setattr(f"enlcn.train.{module}.time", SimpleNamespace(monotonic=lambda: now[0]))


def test_a_budget_ends_the_run_and_its_schedule(job, steady_clock):
    config = replace(TINY, cadence=replace(TINY.cadence, log=1))
    outcome = train(replace(job, config=config, budget=4.0))
    assert outcome.elapsed == pytest.approx(4.0, abs=0.051)
    assert outcome.step in (80, 81)
    assert outcome.step > TINY.total_steps  # steps do not end it
    rates = [record["learning_rate"] for record in records(job, "train")]
    assert max(rates) > 1e-3
    assert rates[-1] < 0.05 * max(rates)
    assert (job.out / "model.safetensors").exists()
    assert train(replace(job, config=config, budget=4.0)).step == outcome.step  # nothing is left of it
    with pytest.raises(UserError, match="positive"):
        train(replace(job, budget=0.0))


def test_a_budget_can_cut_off_a_schedule_in_steps(job, steady_clock):
    planned = replace(TINY, schedule=replace(TINY.schedule, clock="steps"))
    assert train(replace(job, config=planned, budget=100.0)).step == TINY.total_steps
    endless = replace(planned, total_steps=10**6)
    outcome = train(replace(job, out=job.out / "cut", config=endless, budget=1.0))
    assert outcome.step in (20, 21)
    assert load_snapshot(RunFolder(job.out / "cut").last).step == outcome.step


def test_too_many_bad_steps_end_the_run_with_the_batch_kept(job, tmp_path):
    """Weights of 1e30 overflow in the first convolutions of every step."""
    torch.manual_seed(0)
    network = SRNetwork(TINY.model)
    with torch.no_grad():
        network.head.weight.fill_(1e30)
        network.stages[0].blocks[0].conv1.weight.fill_(1e30)
    enlcn.checkpoint.save(network, tmp_path / "broken.safetensors")
    config = replace(TINY, optimizer=replace(TINY.optimizer, max_bad_steps=4), cadence=replace(TINY.cadence, log=2))
    with pytest.raises(UserError, match="not finite 4 times in a row, until step 3; its batch is kept in"):
        train(replace(job, config=config, init=tmp_path / "broken.safetensors"))
    kept = torch.load(job.out / "bad-batch-step-3-rank-0.pt", weights_only=True)
    assert kept["lr"].shape == (4, 3, 10, 10)
    assert kept["hr"].shape == (4, 3, 20, 20)
    snapshot = load_snapshot(RunFolder(job.out).last)
    assert (snapshot.step, snapshot.skipped) == (4, 4)
    assert torch.equal(snapshot.network["head.weight"], network.head.weight)


def test_sets_that_are_too_small_say_so(job, tmp_path, caplog):
    write_pictures(tmp_path / "small", count=2, size=(18, 60))
    with pytest.raises(UserError, match="none of the 2 images is as large as one crop, 20x20"):
        train(replace(job, data=tmp_path / "small"))
    (tmp_path / "empty").mkdir()
    caplog.clear()
    with pytest.raises(UserError, match=r"empty: there are no images to train on; expected \.png"):
        train(replace(job, data=tmp_path / "empty", validation=None))
    assert caplog.text == ""  # nothing about validation: there is no run
    with pytest.raises(UserError, match="no images to validate on"):
        train(replace(job, validation=tmp_path / "empty"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"validation": Path("absent")}, "absent: no such folder or tar of validation images; give another with --val"),
        ({"init": Path("absent.pt")}, r"absent\.pt: no such file or model"),
        ({"init": Path("untrained:enlcn-tiny-x2")}, "untrained:enlcn-tiny-x2: cannot start from it"),
        ({"data": Path("absent")}, "absent: no such folder or tar of training images"),
    ],
)
def test_mistakes_are_noticed_before_images_are_decoded(job, tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        train(replace(job, cache=tmp_path / "cache", **change))
    assert not (tmp_path / "cache").exists()


def test_a_batch_that_processes_cannot_share_is_noticed_before_images_are_decoded(job, tmp_path, monkeypatch):
    monkeypatch.setattr("enlcn.train.start.processes", lambda device: nullcontext(Ranks(0, 3, CPU)))
    with pytest.raises(UserError, match="3 processes"):
        train(replace(job, cache=tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()


def test_an_interruption_while_images_are_decoded_is_obeyed_at_once(job, tmp_path):
    seen = []

    def interrupt(done, total):
        seen.append(done)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            train(replace(job, cache=tmp_path / "cache"), progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [1]
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_bad_image_to_validate_on_is_named(job, tmp_path):
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "notes.png").write_text("hello")
    with pytest.raises(UserError, match=r"notes\.png: cannot be validated on: not a readable image$"):
        train(replace(job, validation=tmp_path / "val"))


@pytest.mark.parametrize("size", [(4, 60), (1, 1)])
def test_an_image_too_small_to_validate_on_is_named_before_the_run(job, tmp_path, size):
    write_pictures(tmp_path / "val", count=1, size=size)
    with pytest.raises(UserError, match=r"^0\.png: too small to validate on: of .* pixels PSNR leaves out 2 at each"):
        train(replace(job, validation=tmp_path / "val"))
    assert not job.out.exists()


def test_f_is_drawn_anew_only_in_the_first_part_of_a_run(job):
    """Due at 0, 4, 8, 12 and 16 of 20, drawn at 0, 4 and 8; a run that goes on at 11 keeps to it."""
    job = replace(job, config=replace(TINY, cadence=replace(TINY.cadence, redraw=4, redraw_until=0.5, keep=1)))
    train(job)
    folder, again = RunFolder(job.out), RunFolder(job.out / "again")
    drawn = [load_snapshot(folder.kept(step)).network["stages.0.attention.projection"] for step in range(1, 21)]
    assert [step for step in range(1, 20) if not torch.equal(drawn[step], drawn[step - 1])] == [4, 8]

    again.checkpoints.mkdir(parents=True)
    copyfile(folder.kept(11), again.last)
    train(replace(job, out=again.path))
    whole, resumed = load_snapshot(folder.last).network, load_snapshot(again.last).network
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_without_held_out_images_it_trains_all_the_same(job, pictures, caplog):
    outcome = train(replace(job, data=pictures / "train"))
    assert outcome.psnr is None
    assert "nothing will be validated" in caplog.text
    assert (job.out / "model.safetensors").exists()


def test_validation_can_look_at_centres_of_a_few(pictures):
    files = find_images(pictures, "all")
    images = load_held_out(files, 2, limit=3, crop=8)
    assert [image.name for image in images] == [files[0].name, files[2].name, files[4].name]
    assert all(image.hr.shape == (1, 3, 16, 16) and image.lr.shape == (1, 3, 8, 8) for image in images)
    whole = load_held_out(files[:1], 2)[0]
    assert torch.equal(images[0].hr, whole.hr[..., 24:40, 32:48])


def test_tensorboard_gets_curves_and_pictures(job):
    train(replace(job, tensorboard=True))
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(job.out / "tensorboard"))
    events.Reload()
    assert {"train/loss", "train/contrastive", "validation/psnr"} <= set(events.Tags()["scalars"])
    assert set(events.Tags()["images"]) == {"validation/lr", "validation/sr", "validation/hr"}


def test_tensorboard_shows_steps_that_are_done_again_once(job):
    job = replace(job, config=replace(TINY, cadence=replace(TINY.cadence, keep=10)), tensorboard=True)
    train(job)
    folder = RunFolder(job.out)
    copyfile(folder.kept(10), folder.last)  # as after a kill
    folder.model.unlink()
    train(job)
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(job.out / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [5, 10, 15, 20]


def test_tensorboard_is_an_extra(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r"enlcn\[train\]"):
        train(replace(job, tensorboard=True))
    assert train(replace(job, tensorboard=None)).step == 20
    assert not (job.out / "tensorboard").exists()


@pytest.mark.parametrize("terminal", [True, False])
def test_the_line_shows_where_the_run_stands(job, terminal):
    written = io.StringIO()
    train(job, console=Console(file=written, force_terminal=terminal, width=120))
    line = written.getvalue()
    for part in ("step 5/20", "loss 0.", "L_cl 0.", "img/s", "ETA 0:00:"):
        assert part in line
