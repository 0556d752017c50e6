"""Generalised exponential features: unbiased for every A, of the variance their formula says, lower than phi's."""

import math

import pytest
import torch

from enlcn.ops.features import kernel_variance, positive_features
from enlcn.ops.generalised_features import (
    best_parameter,
    generalised_features,
    generalised_log_features,
    log_relative_second_moment,
)
from enlcn.ops.projection import draw_projection

DIM, DRAWS = 8, 384_000


def pair(amplification):
    generator = torch.Generator().manual_seed(5)
    q, k = torch.randn(2, DIM, generator=generator, dtype=torch.float64)
    k = q + 0.7 * k
    return tuple(math.sqrt(amplification) * v / v.norm() for v in (q, k))


def estimates(q, k, a, draws=DRAWS, seed=0):
    """One-feature estimates of exp(q.k), (draws,)."""
    proj = draw_projection(draws, DIM, kind="iid", generator=torch.Generator().manual_seed(seed)).double()
    return (generalised_log_features(q[None], proj, a) + generalised_log_features(k[None], proj, a)).exp()[0]


def closed_form(squared_norm, dim):
    """A* of Chefs' Random Tables, Theorem on optimal positive features: (1 - 1 / rho) / 8."""
    rho = (math.sqrt((2 * squared_norm + dim) ** 2 + 8 * dim * squared_norm) - 2 * squared_norm - dim) / (
        4 * squared_norm
    )
    return (1 - 1 / rho) / 8


def test_a_of_zero_is_the_papers_phi():
    u, proj = torch.randn(3, 7, DIM), torch.randn(12, DIM)
    torch.testing.assert_close(generalised_features(u, proj, 0.0), positive_features(u, proj))
    q, k = pair(2.0)
    ours = torch.expm1(log_relative_second_moment((q + k).square().sum(), DIM, 0.0)) * (q @ k).exp() ** 2 / 16
    torch.testing.assert_close(ours, kernel_variance(q, k, 16))


@pytest.mark.parametrize("a", [-0.5, -0.3, -0.05, 0.02])
def test_the_mean_is_the_kernel(a):
    q, k = pair(1.0)
    sample = estimates(q, k, a)
    deviation = sample.std() / math.sqrt(DRAWS)
    assert abs(sample.mean() - (q @ k).exp()) < 5 * deviation
    assert deviation < 0.02  # else the line above says nothing


@pytest.mark.parametrize("a", [-0.5, -0.3, -0.1])
def test_the_variance_is_the_formulas(a):
    q, k = pair(1.0)
    expected = torch.expm1(log_relative_second_moment((q + k).square().sum(), DIM, a)) * (q @ k).exp() ** 2
    assert estimates(q, k, a).var() == pytest.approx(expected.item(), rel=0.1)


@pytest.mark.parametrize("amplification", [1.0, 3.0, 6.0])
def test_the_best_a_lowers_the_variance(amplification):
    q, k = pair(amplification)
    squared_norm = (q + k).square().sum()
    best = best_parameter(squared_norm.item(), DIM)
    assert best < 0
    theirs, ours = (log_relative_second_moment(squared_norm, DIM, a).item() for a in (0.0, best))
    assert ours < theirs - 0.2
    # What the formula says is what draws give: the same rows of F, means over 128 of them, a smaller typical error.
    # (Not a smaller mean square at large k: no sample holds the tail of phi that makes it large.)
    kernel = (q @ k).exp()
    means = {a: estimates(q, k, a).unflatten(0, (-1, 128)).mean(1) for a in (0.0, best)}
    error = {a: (mean - kernel).abs().median() for a, mean in means.items()}
    assert error[best] < 0.9 * error[0.0]


@pytest.mark.parametrize(("squared_norm", "dim"), [(0.5, 8), (12.0, 16), (24.0, 64), (16.0, 4)])
def test_the_search_finds_the_closed_form(squared_norm, dim):
    assert best_parameter(squared_norm, dim) == pytest.approx(closed_form(squared_norm, dim), rel=1e-4)


def test_a_beyond_the_limit_is_refused():
    with pytest.raises(ValueError, match="below 1/8"):
        generalised_log_features(torch.zeros(1, 4), torch.zeros(2, 4), 0.125)
