import shutil
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from enlcn.data.crops import Sampling
from enlcn.data.patches import DevicePatches
from enlcn.errors import UserError
from enlcn.losses import PIXEL_LOSSES, total_loss
from enlcn.models.backbone import SRNetwork
from enlcn.ops.contrastive import contrastive_loss
from enlcn.train.config import OPTIMIZERS, EngineConfig
from enlcn.train.config import PIXEL_LOSSES as PIXEL_LOSS_NAMES
from enlcn.train.distributed import Ranks
from enlcn.train.objective import choose_rows
from enlcn.train.step import TrainStep
from tests.data.test_patches import make_set
from tests.train.conftest import TINY

CPU = torch.device("cpu")
PLAIN = replace(
    TINY, optimizer=replace(TINY.optimizer, clip_norm=None, ema_decay=None), loss=replace(TINY.loss, num_rows=None)
)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for the CPU needs g++")


class WithBadBatches:
    """A source whose batches at some steps hold a NaN."""

    def __init__(self, source, bad_steps):
        self.source, self.bad_steps = source, bad_steps

    def prepare(self, step):
        self.source.prepare(step)

    def draw(self, step):
        lr, hr = self.source.draw(step)
        return (lr * float("nan") if int(step) in self.bad_steps else lr), hr


def source(batch_size=4):
    return DevicePatches(make_set(), Sampling(8, batch_size), CPU)


def build(config=TINY, patches=None, seed=0):
    torch.manual_seed(seed)
    return TrainStep(SRNetwork(config.model), config, patches or source(), Ranks(0, 1, CPU))


def weights(state):
    return [p.detach().clone() for p in state.parameters]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_two_steps_equal_plain_adam():
    """The same steps written down naively: autograd on total_loss, torch's unfused Adam."""
    config = replace(PLAIN, cadence=replace(PLAIN.cadence, redraw=0))
    state = build(config)
    torch.manual_seed(0)
    network = SRNetwork(config.model)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.9, 0.99), fused=False, foreach=False)
    expected = []
    for step in range(2):
        lr, hr = source().draw(torch.tensor(step))
        sr, pairs = network.forward_with_pairs(lr)
        loss, contrastive = total_loss(sr, hr, pairs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append((loss.item(), contrastive.item()))
        state.advance(1e-3, with_contrast=True)
    readings = state.read()
    assert readings.loss == pytest.approx(sum(loss for loss, _ in expected) / 2, rel=1e-5)
    assert readings.contrastive == pytest.approx(sum(c for _, c in expected) / 2, rel=1e-4)
    for ours, theirs in zip(state.parameters, network.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=2e-5)


def test_without_contrast_it_is_l1_alone():
    state = build()
    state.advance(0.0, with_contrast=False)
    lr, hr = source().draw(torch.tensor(0))
    readings = state.read()
    assert readings.contrastive == 0
    assert readings.loss == pytest.approx((state.network(lr) - hr).abs().mean().item(), rel=1e-5)


def test_steps_in_residual_branches_may_be_longer():
    """The first step of Adam is as long as its learning rate, everywhere."""
    state = build(replace(PLAIN, optimizer=replace(PLAIN.optimizer, residual_factor=3.0)))
    before = {name: weight.detach().clone() for name, weight in state.network.named_parameters()}
    state.advance(1e-3, with_contrast=False)
    for name, weight in state.network.named_parameters():
        longest = (weight - before[name]).abs().max().item()
        is_residual = ".blocks." in name or ".value." in name
        assert longest == pytest.approx(3e-3 if is_residual else 1e-3, rel=0.02), name
    stored = state.optimizers.state_dict()
    state.optimizers.load_state_dict(stored)
    state.learning_rate.fill_(0.5)
    state.optimizers.step()
    assert [float(group["lr"]) for group in state.optimizers.state_dict()["adam"]["param_groups"]] == [0.5, 1.5]


def test_longer_steps_in_residual_branches_are_adams_alone():
    with pytest.raises(UserError, match=r"residual_factor is for optimizer\.kind=adam"):
        replace(TINY.optimizer, kind="muon", residual_factor=3.0)


def test_muon_takes_the_inner_weights_and_learns():
    state = build(replace(TINY, optimizer=replace(TINY.optimizer, kind="muon")))
    losses = []
    for _ in range(30):
        state.advance(2e-3, with_contrast=False)
        losses.append(state.read().loss)
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    assert sorted(state.optimizers.state_dict()) == ["adam", "muon"]
    with pytest.raises(UserError, match=r"optimizer.kind is 'sgd'; choose from adam, muon"):
        replace(TINY.optimizer, kind="sgd")


def test_the_pixel_loss_may_be_l2():
    state = build(replace(TINY, loss=replace(TINY.loss, pixel="l2")))
    state.advance(0.0, with_contrast=False)
    lr, hr = source().draw(torch.tensor(0))
    assert state.read().loss == pytest.approx((state.network(lr) - hr).square().mean().item(), rel=1e-5)
    assert tuple(PIXEL_LOSSES) == PIXEL_LOSS_NAMES
    with pytest.raises(UserError, match=r"loss.pixel is 'l3'; choose from l1, l2"):
        replace(TINY.loss, pixel="l3")


def test_gradients_are_clipped():
    state = build(replace(TINY, optimizer=replace(TINY.optimizer, clip_norm=1e-3)))
    state.advance(1e-3, with_contrast=True)
    norm = torch.stack([p.grad.norm() for p in state.parameters]).norm()
    assert norm.item() == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_bad_step_changes_nothing_is_counted_and_training_goes_on(kind):
    config = replace(TINY, optimizer=replace(TINY.optimizer, kind=kind))
    state = build(config, patches=WithBadBatches(source(), {2}))
    for _ in range(2):
        state.advance(1e-3, with_contrast=True)
    before = weights(state)
    first = state.read()
    state.advance(1e-3, with_contrast=True)
    assert same(before, weights(state))
    second = state.read()
    state.advance(1e-3, with_contrast=True)
    third = state.read()
    assert not same(before, weights(state))
    assert (first.skipped, second.skipped, third.skipped) == (0, 1, 1)
    assert (second.longest_bad_run, second.last_bad_step) == (1, 2)
    assert third.longest_bad_run <= 1
    assert third.loss == third.loss
    assert all(torch.isfinite(p).all() for p in state.parameters)
    assert all(torch.isfinite(total).all() for total in state.average.sums)


def test_bad_runs_are_measured_across_readings():
    state = build(patches=WithBadBatches(source(), {1, 2, 3}))
    longest = []
    for _ in range(6):
        state.advance(1e-3, with_contrast=False)
        longest.append(state.read().longest_bad_run)
    assert longest == [0, 1, 2, 3, 3, 0]


def test_f_is_redrawn_every_epoch_from_seed_and_epoch():
    state, other = build(seed=0), build(seed=1)
    drawn = []
    for _ in range(2 * TINY.cadence.redraw):
        for one in (state, other):
            one.advance(1e-4, with_contrast=False)
        assert torch.equal(state.network.attentions[1].projection, other.network.attentions[1].projection)
        drawn.append(state.network.attentions[1].projection.clone())
    changes = [not torch.equal(a, b) for a, b in pairwise(drawn)]
    assert changes == [step % TINY.cadence.redraw == 0 for step in range(1, len(drawn))]


def test_rows_are_distinct_uniform_and_new_at_each_step():
    rows = torch.stack([choose_rows(3, torch.tensor(step), 0, 50, 10) for step in range(4000)])
    assert all(len(set(row.tolist())) == 10 for row in rows[:50])
    counts = torch.bincount(rows.flatten(), minlength=50).double()
    assert ((counts - 800).abs() < 5 * (4000 * 0.2 * 0.8) ** 0.5).all()
    assert not torch.equal(choose_rows(3, torch.tensor(1), 0, 50, 10), choose_rows(3, torch.tensor(1), 1, 50, 10))


def test_rows_of_the_loss_are_those_chosen():
    config = replace(TINY, loss=replace(TINY.loss, num_rows=5), cadence=replace(TINY.cadence, redraw=0))
    state = build(config)
    lr, _ = source().draw(torch.tensor(0))
    _, pairs = state.network.forward_with_pairs(lr)
    seed = state.objective.row_seed
    expected = [
        contrastive_loss(q[:, choose_rows(seed, torch.tensor(0), index, 64, 5)], k)
        for index, (q, k) in enumerate(pairs)
    ]
    state.advance(0.0, with_contrast=True)
    assert state.read().contrastive == pytest.approx(torch.stack(expected).mean().item(), rel=1e-4)


@pytest.mark.parametrize("engine", [EngineConfig(precision="bf16"), EngineConfig(channels_last=False)])
def test_engines_agree_with_the_default(engine):
    """Rounding aside: after five steps the loss has gone the same way."""
    losses = []
    for config in (TINY, replace(TINY, engine=engine)):
        state = build(config)
        for _ in range(5):
            state.advance(1e-3, with_contrast=True)
        losses.append(state.read().loss)
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_training_overfits_one_batch():
    class OneBatch:
        def __init__(self):
            self.batch = source().draw(torch.tensor(0))

        def prepare(self, step):
            pass

        def draw(self, step):
            return self.batch

    state = build(patches=OneBatch())
    state.advance(0.0, with_contrast=True)
    first = state.read().loss
    for _ in range(150):
        state.advance(3e-3, with_contrast=True)
    state.read()
    state.advance(0.0, with_contrast=True)
    assert state.read().loss < first / 5


def test_a_compiler_that_fails_is_done_without(caplog):
    def broken_backend(graph, inputs):
        raise RuntimeError("no compiler here")

    state, plain = build(replace(TINY, engine=EngineConfig(compile="on"))), build()
    state.objective.run_network = torch.compile(state.network.forward_with_pairs, backend=broken_backend)
    for one in (state, plain):
        for _ in range(2):
            one.advance(1e-3, with_contrast=True)
    assert caplog.text.count("torch.compile failed, going on without it") == 1
    assert same(weights(state), weights(plain))


@needs_compiler
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_compiler_that_fails_in_the_backward_pass_is_done_without(monkeypatch, caplog, precision):
    from torch._inductor.graph import GraphLowering

    generate = GraphLowering.codegen

    def broken(graph):
        if graph.is_backward:
            raise RuntimeError("no compiler here")
        return generate(graph)

    monkeypatch.setattr(GraphLowering, "codegen", broken)
    config = replace(TINY, engine=EngineConfig(precision=precision))
    state, plain = (build(replace(config, engine=replace(config.engine, compile=switch))) for switch in ("on", "off"))
    with torch._inductor.config.patch(force_disable_caches=True):
        for one in (state, plain):
            for _ in range(2):
                one.advance(1e-3, with_contrast=True)
    assert caplog.text.count("torch.compile failed, going on without it") == 1
    assert same(weights(state), weights(plain))


@pytest.mark.slow
@needs_compiler
def test_compiled_steps_equal_eager_ones():
    results = []
    for switch in ("off", "on"):
        state = build(replace(TINY, engine=EngineConfig(compile=switch)))
        for _ in range(4):
            state.advance(1e-3, with_contrast=True)
        results.append((state.read(), weights(state), state.draw(torch.tensor(77))))
    (eager, eager_weights, eager_batch), (compiled, compiled_weights, compiled_batch) = results
    assert all(torch.equal(a, b) for a, b in zip(eager_batch, compiled_batch, strict=True))
    assert compiled.loss == pytest.approx(eager.loss, rel=1e-4)
    for ours, theirs in zip(compiled_weights, eager_weights, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-3)
