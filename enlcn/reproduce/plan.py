"""How many steps each run of a reproduction gets: as many as the budget holds, the same for every row."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from enlcn.data.patches import open_patches
from enlcn.reproduce.material import Material
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import RunSpec, config_of, key_of
from enlcn.reproduce.training import score
from enlcn.train.config import TrainConfig
from enlcn.train.distributed import Ranks
from enlcn.train.loop import sampling_of
from enlcn.train.start import fresh_network
from enlcn.train.step import TrainStep, set_up_backends

log = logging.getLogger(__name__)
MIN_STEPS = 4
MAX_STEPS = 1_000_000
_TRIAL_STEPS = 1000  # only the schedule's length; a trial does a handful
_UNTIMED, _TIMED = 6, 20  # on CUDA; a CPU needs no graph to be captured
_UNTIMED_ON_CPU, _TIMED_ON_CPU = 1, 4
_TRIAL_SECONDS = 2.0


@dataclass(frozen=True)
class Trial:
    """What one step and one scoring of a kind of network take, in seconds."""

    step: float
    scoring: float


def unique_runs(runs: Sequence[RunSpec], preset: Preset) -> list[RunSpec]:
    """The runs without those that another one already is, in order."""
    found: dict[str, RunSpec] = {}
    for spec in runs:
        found.setdefault(key_of(config_of(spec, preset, _TRIAL_STEPS)), spec)
    return list(found.values())


def steps_within(
    runs: Sequence[RunSpec],
    preset: Preset,
    seconds: float,
    material: Material,
    *,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, dict[str, Trial]]:
    """The number of steps at which all of `runs` together take `seconds`, and the trials it was found by.

    Args:
        runs: all that are to be trained.
        preset: of the miniature.
        seconds: for training and scoring.
        material: what is trained on.
        jobs: processes at a time; scoring is shared among them, a GPU's steps are not.
        progress: called with (done, total) after each trial.
    """
    runs = unique_runs(runs, preset)
    kinds: dict[str, TrainConfig] = {}
    for spec in runs:
        config = config_of(spec, preset, _TRIAL_STEPS)
        kinds.setdefault(kind_of(config), config)
    trials: dict[str, Trial] = {}
    for done, (kind, config) in enumerate(kinds.items(), start=1):
        trials[kind] = try_out(config, material)
        log.debug("%s: %.1f ms a step, scoring %.1f s", kind, 1e3 * trials[kind].step, trials[kind].scoring)
        if progress:
            progress(done, len(kinds))
    used = [trials[kind_of(config_of(spec, preset, _TRIAL_STEPS))] for spec in runs]
    left = seconds - sum(trial.scoring for trial in used) / jobs
    steps = int(left / max(1e-9, sum(trial.step for trial in used)))
    return max(MIN_STEPS, min(MAX_STEPS, _rounded(steps))), trials


def kind_of(config: TrainConfig) -> str:
    """Runs of one kind take about the same time."""
    attention = config.model.attention
    if config.model.num_attentions == 0:
        return "none"
    large = f", m {attention.num_features}" if attention.kind == "enlca" and attention.num_features > 128 else ""
    return f"{attention.kind}{large}"


def try_out(config: TrainConfig, material: Material) -> Trial:
    """Time some steps with all losses on, and one scoring."""
    device, on_cuda = material.device, material.device.type == "cuda"
    set_up_backends(config.engine, device)
    ranks = Ranks(0, 1, device)
    patches = open_patches(material.training_images, sampling_of(config, ranks), device, config.data.placement)
    network = fresh_network(config).to(device)
    step = TrainStep(network, replace(config, seed=0), patches, ranks)
    with_contrast = config.loss.contrastive_weight > 0 and config.model.num_attentions > 0

    def advance(count: int) -> float:
        began = time.monotonic()
        done = 0
        # On CUDA all of them: kernels are compiled in the first, and the fourth becomes a graph.
        while done < count and (on_cuda or done < 1 or time.monotonic() - began < _TRIAL_SECONDS):
            step.advance(1e-6, with_contrast)
            done += 1
        if on_cuda:
            torch.cuda.synchronize(device)
        return (time.monotonic() - began) / done

    advance(_UNTIMED if on_cuda else _UNTIMED_ON_CPU)
    seconds = advance(_TIMED if on_cuda else _TIMED_ON_CPU)
    began = time.monotonic()
    score(network.eval(), material.scored_sets, device)
    return Trial(seconds, time.monotonic() - began)


def _rounded(steps: int) -> int:
    """Down to two digits, so that labels are readable."""
    if steps < 100:
        return steps
    unit = 10 ** (len(str(steps)) - 2)
    return steps // unit * unit
