"""A reproduction, top to bottom: plan, train, measure, show; each part is kept, so that the next call goes on."""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from enlcn.cost import num_parameters
from enlcn.errors import UserError
from enlcn.files import check_folder
from enlcn.reproduce.items import ITEMS, PRIORITY
from enlcn.reproduce.material import Material
from enlcn.reproduce.plan import Trial, steps_within, unique_runs
from enlcn.reproduce.preset import DEFAULT_BUDGET, Preset, choose_preset
from enlcn.reproduce.rows import FULL, RunSpec, config_of, key_of
from enlcn.reproduce.section import Context
from enlcn.reproduce.split import Sources
from enlcn.reproduce.store import Json, Store
from enlcn.reproduce.training import device_name
from enlcn.reproduce.workers import Work, train_all
from enlcn.train.distributed import choose_device
from enlcn.upscaling.devices import torch_threads
from enlcn.version import __version__

log = logging.getLogger(__name__)
# Of the budget; the rest is for measuring, starting and drawing.
TRAINING_SHARE, TRAINING_SHARE_ALONE = 0.7, 0.9
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        names: tables and figures.
        out: folder of results.
        sources: pictures.
        budget: seconds of the whole reproduction, over all calls: it sets the number of steps.
        time_limit: seconds of this call; None for none.
        device: "auto", "cpu", "cuda" …
        preset: its name, or auto.
        models: checkpoints to measure besides the bundled ones.
        changes: fields of the preset to change.
        steps: of every miniature run; None finds them by the budget.
        jobs: training processes at a time.
        overwrite: forget what is in `out` first.
    """

    names: tuple[str, ...]
    out: Path
    sources: Sources
    budget: float = DEFAULT_BUDGET
    time_limit: float | None = None
    device: str = "auto"
    preset: str = "auto"
    models: tuple[str, ...] = ()
    changes: tuple[tuple[str, object], ...] = ()
    steps: int | None = None
    jobs: int = 1
    overwrite: bool = False


@dataclass(frozen=True)
class Left:
    """What a call did not come to: runs to train, tables and figures to measure."""

    runs: int
    items: tuple[str, ...]


def reproduce(request: Request, progress: Progress = lambda what, done, total: None) -> Left:
    """Train and measure what is asked for and not there yet.

    Args:
        request: what.
        progress: called with what is being done, and how much of it.
    """
    deadline = time.time() + (request.time_limit if request.time_limit is not None else float("inf"))
    _check(request)
    device = choose_device(request.device)
    preset = choose_preset(request.preset, budget=request.budget, on_cuda=device.type == "cuda")
    preset = replace(preset, **dict(request.changes))  # type: ignore[arg-type]
    wanted = _runs_of(request.names, preset)
    if request.overwrite:  # not before all is known to be right
        Store(request.out).clear()
    with torch_threads(preset.threads):
        return _reproduce(request, preset, device, wanted, deadline, progress)


def _reproduce(
    request: Request,
    preset: Preset,
    device: torch.device,
    wanted: list[RunSpec],
    deadline: float,
    progress: Progress,
) -> Left:
    store = Store(request.out)
    material = Material(request.sources, preset, device, lambda done, total: progress("decoding images", done, total))
    has_pictures = request.sources.data is not None
    # Without pictures nothing is trained, but what an earlier call trained is shown.
    has_plan = bool(wanted) and (has_pictures or store.plan() is not None)
    steps = _planned_steps(request, store, preset, material, wanted, progress) if has_plan else 0

    left: list[RunSpec] = []
    if wanted and has_pictures:
        threads = max(1, torch.get_num_threads() // request.jobs) if request.jobs > 1 else None
        work = Work(preset, steps, request.sources, str(device), request.out, deadline, threads, request.jobs)
        done = sum(store.run(key_of(config_of(spec, preset, steps))) is not None for spec in wanted)
        counter = _Counter(done, len(wanted), steps, progress)
        left = train_all(wanted, work, material, on_done=counter.on_done, on_step=counter.on_step)
    context = Context(preset, steps, material, store, request.models, request.budget)
    return Left(len(left), _measure_all(request.names, context, deadline, progress))


class _Counter:
    """Shows how many steps of all runs are done."""

    def __init__(self, done: int, runs: int, steps: int, progress: Progress):
        self._done, self._runs, self._steps, self._progress = done, runs, steps, progress
        self.on_step(0)

    def on_step(self, step: int) -> None:
        """The run at work has come to this step."""
        self._progress("training steps", min(self._done, self._runs) * self._steps + step, self._runs * self._steps)

    def on_done(self) -> None:
        """A run is finished."""
        self._done += 1
        self.on_step(0)


def _check(request: Request) -> None:
    for name in request.names:
        if name not in ITEMS:
            raise UserError(f"unknown table or figure '{name}'; choose from {', '.join(ITEMS)}, all")
    needing = [name for name in request.names if ITEMS[name].needs_pictures]
    if needing and request.sources.data is None:
        raise UserError(
            f"{', '.join(needing)}: needs pictures; give their folder with --data DIR, or name it in ENLCN_DATA"
        )
    limits = (request.budget, request.time_limit)
    if not all(limit is None or 0 < limit < math.inf for limit in limits):
        raise UserError("budget and time limit must be positive numbers of seconds")
    if request.jobs < 1:
        raise UserError("--jobs must be at least 1")
    check_folder(request.out)


def _runs_of(names: Sequence[str], preset: Preset) -> list[RunSpec]:
    """What must be trained for these tables and figures, without doubles, the most wanted first."""
    order = [name for name in PRIORITY if name in names]
    return unique_runs([spec for name in order for spec in ITEMS[name].needs(preset)], preset)


def _planned_steps(
    request: Request, store: Store, preset: Preset, material: Material, runs: Sequence[RunSpec], progress: Progress
) -> int:
    """The steps of the plan in this folder, or those that fit the budget, which become the plan."""
    plan = store.plan()
    if plan is not None:
        _refuse_another_plan(request, plan, preset, material)
        return int(plan["steps"])
    facts = material.facts()
    trials: dict[str, Trial] = {}
    if not preset.is_miniature:
        steps = config_of(RunSpec(FULL, 0), preset, 1).total_steps
    elif request.steps is not None:
        steps = request.steps
    else:
        share = TRAINING_SHARE if len(request.names) > 1 else TRAINING_SHARE_ALONE
        steps, trials = steps_within(
            runs,
            preset,
            share * request.budget,
            material,
            jobs=request.jobs,
            progress=lambda done, total: progress("timing steps", done, total),
        )
    model = config_of(RunSpec(FULL, 0), preset, steps).model
    store.write_plan(
        {
            "names": ["all"] if set(request.names) == set(ITEMS) else list(request.names),
            "preset": preset.to_plain(),
            "steps": steps,
            "steps_given": request.steps is not None,
            "budget": request.budget,
            "jobs": request.jobs,
            "runs": len(runs),
            "parameters": num_parameters(model),
            "network": f"{model.num_blocks} blocks of {model.channels} channels, {model.num_attentions} attentions",
            "device": device_name(material.device),
            "torch": torch.__version__,
            "enlcn": __version__,
            "seconds_per_step": {kind: trial.step for kind, trial in trials.items()},
            "data": facts,
        }
    )
    return steps


def _refuse_another_plan(request: Request, plan: Json, preset: Preset, material: Material) -> None:
    """An error where settings or pictures are others than the plan's: one table would mix them."""
    asked: Json = {"preset": preset.to_plain()}
    if request.steps is not None:
        asked["steps"] = request.steps
    if request.sources.data is not None:
        asked["data"] = material.facts()
    told = []
    for part, values in asked.items():
        # What a plan of an older version does not know of does not count.
        pairs = {part: (plan[part], values)}
        if isinstance(values, dict):
            pairs = {name: (before, values.get(name)) for name, before in plan[part].items()}
        told += [f"{name} was {before}, now {now}" for name, (before, now) in pairs.items() if before != now]
    if told:
        first = "; ".join(told[:2]) + (f"; and {len(told) - 2} more" if len(told) > 2 else "")
        raise UserError(
            f"{request.out}: holds a reproduction with other settings or pictures ({first}); "
            "choose another folder, or pass --overwrite to begin anew"
        )
    steps, budget = f"{plan['steps']:,}", plan["budget"]
    log.info("going on with the plan in %s: %s steps a run", request.out, steps)
    if budget != request.budget and not plan["steps_given"]:
        log.warning("these steps were chosen for a budget of %g s, not for %g s", budget, request.budget)


def _measure_all(names: Sequence[str], context: Context, deadline: float, progress: Progress) -> tuple[str, ...]:
    """Measure every table and figure that was not, or of other runs or networks; returns those not come to."""
    left = []
    for done, name in enumerate(name for name in PRIORITY if name in names):
        item = ITEMS[name]
        progress(f"measuring {name}", done, len(names))
        needed = unique_runs(list(item.needs(context.preset)), context.preset) if context.steps else []
        finished = [context.key(spec.recipe, spec.seed) for spec in needed if context.run(spec.recipe, spec.seed)]
        basis = {"runs_used": finished, "models": list(context.models), "preset": context.preset.to_plain()}
        before = context.store.result(name)
        if before is not None and {key: before["about"][key] for key in basis} == basis:
            continue
        if time.time() >= deadline and not item.is_quick:
            left.append(name)
            continue
        began = time.monotonic()
        try:
            data = item.measure(context)
        except Exception as error:  # out of memory, a kernel that does not compile: the others may well work
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            log.error("%s could not be measured: %s", name, reason)
            log.debug("traceback", exc_info=True)
            left.append(name)
            continue
        about = basis | {"runs_needed": len(needed), "seconds": round(time.monotonic() - began, 1)}
        context.store.write_result(name, {"about": about | _surroundings(context), "data": data})
    progress("measured", len(names), len(names))
    return tuple(left)


def _surroundings(context: Context) -> Json:
    return {
        "device": device_name(context.device),
        "torch": torch.__version__,
        "enlcn": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "steps": context.steps,
    }
