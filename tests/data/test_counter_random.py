import torch

from enlcn.data.counter_random import derive_seed, splitmix64, uniform


def test_matches_the_published_sequence():
    """The reference outputs of SplitMix64 for seed 1234567."""
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    drawn = splitmix64(1234567, torch.arange(5)).tolist()
    assert [value % 2**64 for value in drawn] == expected


def test_uniform_fills_the_unit_interval_evenly():
    values = uniform(7, torch.arange(200_000))
    assert values.min() >= 0
    assert values.max() < 1
    counts = torch.histc(values, bins=100, min=0, max=1)
    chi_squared = ((counts - 2000).square() / 2000).sum()
    assert 60 < chi_squared < 145  # 99 degrees of freedom: 0.1 % on either side


def test_neighbouring_counters_are_independent():
    values = uniform(3, torch.arange(100_001)) - 0.5
    correlation = (values[1:] * values[:-1]).mean() * 12
    assert correlation.abs() < 4 / 100_000**0.5


def test_derived_seeds_differ_and_stay_in_range():
    seeds = {derive_seed(seed, *purpose) for seed in range(50) for purpose in [(0,), (1,), (1, 0), (1, 1)]}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**63 for seed in seeds)
