"""`enlcn upscale --dry-run` for pictures: what would become of each, and what would be in the way."""

from typing import Any

from enlcn.cli import console
from enlcn.errors import UserError


def say_plan(
    planned: list[Any],
    target: Any,
    model: str | None,
    background: Any,
    *,
    skip_existing: bool,
    overwrite: bool,
    max_pixels: int | None,
) -> int:
    """What would be done; returns how many of them cannot. An error where the model is not there at all."""
    from enlcn.upscaling.large import alpha_problem, seen_size

    problems = 0
    for job in planned:
        size, problem = seen_size(job, max_pixels)
        sizes = ""
        if size is not None:
            out_height, out_width = target.size(size[1], size[0])
            sizes = f" ({size[0]}x{size[1]} -> {out_width}x{out_height})"
            problem = problem or _scale_problem(target.factor(size[1], size[0]), model)
            if background is None and not problem:
                problem = alpha_problem(job)
        note = ""
        if job.target is not None and job.target.exists():
            note = " (exists: skipped)" if skip_existing else " (exists: replaced)"
            if not (skip_existing or overwrite):
                note, problem = "", problem or "exists: pass --overwrite or --skip-existing"
        problems += bool(problem)
        told = f" ({problem})" if problem else ""
        console.say(f"{job.source or '-'} -> {job.target or '-'}{sizes}{told}{note}")
    return problems


def _scale_problem(factor: float, model: str | None) -> str:
    """Why a picture cannot grow so much; "" where it can. Weights that come from elsewhere are not fetched for it."""
    from enlcn.zoo import UNTRAINED_PREFIX, is_path, is_remote, locate, refuse_unknown, resolve, trained_scale

    if model is not None and (is_remote(model) or is_path(model)):
        return ""
    try:
        name = resolve(model, trained_scale(factor, model))
    except UserError as error:
        return str(error)
    if not name.startswith(UNTRAINED_PREFIX):
        refuse_unknown(locate(name))
    return ""
