"""Where a run stands: the learning rate, L_cl's start and F's last draw, by steps or by the time budget."""

import math

from enlcn.train.config import ScheduleConfig, TrainConfig


def follows_budget(config: TrainConfig, budget: float | None) -> bool:
    """Whether time, not the count of steps, moves the schedule on; the run then ends with the budget alone."""
    return budget is not None and config.schedule.clock != "steps"


def is_over(config: TrainConfig, step: int, elapsed: float, budget: float | None) -> bool:
    """Whether steps or budget are used up after `step` steps and `elapsed` seconds."""
    if budget is not None and elapsed >= budget:
        return True
    return not follows_budget(config, budget) and step >= config.total_steps


def position(config: TrainConfig, step: int, elapsed: float, budget: float | None) -> float:
    """The schedule's own count of steps: `step`, or the share of the budget that has passed, of all steps.

    Args:
        config: the run.
        step: steps done.
        elapsed, budget: seconds.
    """
    if budget is None or not follows_budget(config, budget):
        return step
    return min(1.0, elapsed / budget) * config.total_steps


def learning_rate(schedule: ScheduleConfig, at: float, step: int, total_steps: int) -> float:
    """The learning rate of the step that follows `step` steps, with the schedule standing `at` (see `position`)."""
    if schedule.kind == "halving":
        factor = 0.5 ** (at // schedule.halve_every)
    elif schedule.kind == "cosine":
        falling = (1 + math.cos(math.pi * min(1.0, at / total_steps))) / 2
        factor = schedule.final_fraction + (1 - schedule.final_fraction) * falling
    else:
        factor = 1.0
    warmup = min(1.0, (step + 1) / schedule.warmup_steps) if schedule.warmup_steps else 1.0
    return schedule.learning_rate * factor * warmup


def contrast_is_on(config: TrainConfig, at: float) -> bool:
    """Whether L_cl is part of the loss, with the schedule standing `at`."""
    return (
        config.loss.contrastive_weight > 0 and config.model.num_attentions > 0 and at >= config.loss.contrastive_start
    )


def redraw_is_on(config: TrainConfig, at: float) -> bool:
    """Whether F may still be drawn anew, with the schedule standing `at`."""
    return at < config.cadence.redraw_until * config.total_steps
