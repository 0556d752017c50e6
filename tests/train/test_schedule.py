from dataclasses import replace
from itertools import pairwise

import pytest

from enlcn.train.config import ScheduleConfig, TrainConfig
from enlcn.train.schedule import contrast_is_on, learning_rate, position

COSINE = ScheduleConfig(kind="cosine", learning_rate=1.0, warmup_steps=10, final_fraction=0.1)


def test_cosine_rises_then_falls_to_its_end():
    values = [learning_rate(COSINE, step, step, 1000) for step in range(1001)]
    assert values[0] == pytest.approx(0.1, rel=0.01)
    assert max(values) == pytest.approx(1.0, rel=0.01)
    assert values[505] == pytest.approx(0.55, abs=0.01)
    assert values[-1] == pytest.approx(0.1)
    assert all(later <= earlier for earlier, later in pairwise(values[10:]))


def test_the_papers_rate_is_halved_every_200_epochs():
    schedule = TrainConfig().schedule
    rates = [learning_rate(schedule, step, step, 1_000_000) for step in (0, 199_999, 200_000, 400_000, 999_999)]
    assert rates == [1e-4, 1e-4, 5e-5, 2.5e-5, 6.25e-6]


def test_the_budget_moves_the_schedule_whatever_the_steps():
    config = TrainConfig(schedule=COSINE, total_steps=1_000_000)
    for step in (20, 5000):
        at = position(config, step, elapsed=540.0, budget=540.0)
        assert learning_rate(COSINE, at, step, config.total_steps) == pytest.approx(0.1)
        at = position(config, step, elapsed=270.0, budget=540.0)
        assert learning_rate(COSINE, at, step, config.total_steps) == pytest.approx(0.55)
    assert position(config, 7, elapsed=9e9, budget=1.0) == config.total_steps
    assert position(config, 7, elapsed=9e9, budget=None) == 7
    by_steps = replace(config, schedule=replace(COSINE, clock="steps"))
    assert position(by_steps, 7, elapsed=270.0, budget=540.0) == 7


def test_contrast_follows_the_same_clock():
    config = TrainConfig()
    at = position(config, 3, elapsed=15.0, budget=100.0)
    assert contrast_is_on(config, at)
    assert not contrast_is_on(config, position(config, 3, elapsed=14.9, budget=100.0))
    assert not contrast_is_on(replace(config, loss=replace(config.loss, contrastive_weight=0.0)), 999_999)


def test_constant_stays():
    assert learning_rate(ScheduleConfig(kind="constant", learning_rate=0.3), 500, 500, 10) == 0.3
