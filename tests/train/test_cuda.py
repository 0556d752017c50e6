"""What only a GPU can show: captured steps equal eager ones, wherever the set lives."""

from dataclasses import replace

import pytest
import torch

from enlcn.data.crops import Sampling
from enlcn.data.patches import open_patches
from enlcn.models.backbone import SRNetwork
from enlcn.train.config import EngineConfig
from enlcn.train.distributed import Ranks
from enlcn.train.snapshot import RunFolder, load_snapshot
from enlcn.train.start import Job, train
from enlcn.train.step import TrainStep
from tests.data.test_patches import make_set
from tests.train.conftest import TINY

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
EXACT = EngineConfig(precision="fp32", compile="off", cuda_graph="off")
IMAGES = make_set(sizes=[(19, 24), (30, 21), (26, 26)])
SAMPLING = Sampling(8, 4)
STEPWISE = replace(TINY.model, upsampler="stepwise")
GATED = replace(TINY.model, block="gated")
VARIED = replace(SAMPLING, any_offset=True, swap_colours=True, smallest_factor=0.6)
DEGRADED = replace(SAMPLING, any_offset=True, noise=10.0, jpeg_quality=30)


def losses(engine, placement="device", steps=12, kind="adam", sampling=SAMPLING, model=TINY.model):
    """The mean loss of every step, L_cl being switched on in the middle."""
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    network = SRNetwork(model).to(device)
    patches = open_patches(IMAGES, sampling, device, placement)
    config = replace(TINY, model=model, engine=engine, optimizer=replace(TINY.optimizer, kind=kind))
    state = TrainStep(network, config, patches, Ranks(0, 1, device))
    values = []
    for step in range(steps):
        state.advance(1e-3, with_contrast=step >= steps // 2)
        values.append(state.read().loss)
    return state, values


@pytest.mark.parametrize("placement", ["device", "host"])
@pytest.mark.parametrize("compiled", ["off", "on"])
@pytest.mark.parametrize(
    "more", [{}, {"kind": "muon"}, {"sampling": VARIED}, {"sampling": DEGRADED}, {"model": STEPWISE}, {"model": GATED}]
)
def test_captured_steps_equal_eager_ones(placement, compiled, more):
    _, eager = losses(EXACT, **more)
    state, captured = losses(replace(EXACT, compile=compiled, cuda_graph="on"), placement, **more)
    assert captured == pytest.approx(eager, rel=2e-3)
    assert state._graph[1].is_captured


@pytest.mark.parametrize("compiled", ["off", "on"])
@pytest.mark.parametrize("model", [TINY.model, STEPWISE, GATED])
def test_captured_steps_in_16_bits_are_close_to_exact_ones(compiled, model):
    _, exact = losses(EXACT, model=model)
    engine = EngineConfig(precision="bf16", compile=compiled, cuda_graph="on")
    assert losses(engine, model=model)[1] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("sampling", [SAMPLING, replace(VARIED, smallest_factor=1.0), VARIED, DEGRADED])
def test_batches_are_those_of_the_cpu(sampling):
    sampling = replace(sampling, batch_size=16, seed=3)
    cpu, gpu = (
        open_patches(IMAGES, sampling, torch.device(name)).draw(torch.tensor(41, device=name))
        for name in ("cpu", "cuda")
    )
    # The same bytes, divided by 255 with its reciprocal; photographs shrunk first may differ by a grey level.
    tolerance = 1.01 / 255 if sampling.rescales else 1e-6
    for ours, theirs in zip(gpu, cpu, strict=True):
        assert torch.allclose(ours.cpu(), theirs, rtol=0, atol=tolerance)


def test_bad_steps_are_skipped_inside_a_graph():
    state, _ = losses(replace(EXACT, cuda_graph="on"))
    before = [p.detach().clone() for p in state.parameters]
    state.network.rgb_mean.fill_(float("nan"))
    state.advance(1e-3, with_contrast=True)
    assert state.read().skipped == 1
    assert all(torch.equal(old, new) for old, new in zip(before, state.parameters, strict=True))


def test_a_whole_run_resumes(tmp_path, pictures, cache):
    job = Job(replace(TINY, total_steps=15), pictures, tmp_path / "run", cache=cache, device="cuda", tensorboard=False)
    train(job)
    outcome = train(replace(job, config=replace(job.config, total_steps=25)))
    assert outcome.step == 25
    assert outcome.skipped == 0
    assert load_snapshot(RunFolder(job.out).last).random_states.keys() == {"cpu", "cuda:0"}
