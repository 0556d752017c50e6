"""Proofs 1 and 2 of the paper, and the range in which float32 holds them."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from enlcn.ops.features import kernel_variance, log_features, positive_features
from enlcn.ops.projection import draw_projection
from tests.ops.vectors import of_length

DRAWS = 100_000
WIDTH = 64


def pairs_of_length(amplification):
    """Query and key at several angles: equal, random, orthogonal, opposite."""
    q = of_length(amplification, 1, WIDTH, dtype=torch.float64)
    other = of_length(amplification, 1, WIDTH, dtype=torch.float64)
    orthogonal = other - (other @ q.T) / (q @ q.T) * q
    orthogonal = normalize(orthogonal, dim=-1) * amplification**0.5
    return {"equal": (q, q), "random": (q, other), "orthogonal": (q, orthogonal), "opposite": (q, -q)}


@pytest.mark.parametrize("kind", ["iid", "orthogonal"])
@pytest.mark.parametrize("amplification", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("angle", ["equal", "random", "orthogonal", "opposite"])
def test_eq4_estimate_is_unbiased(kind, amplification, angle):
    q, k = pairs_of_length(amplification)[angle]
    proj = draw_projection(DRAWS, WIDTH, kind=kind, generator=torch.Generator().manual_seed(7))
    estimate = (positive_features(q, proj) * positive_features(k, proj)).sum()
    standard_error = kernel_variance(q[0], k[0], DRAWS).sqrt()
    if angle == "opposite":  # q + k = 0: the estimate is exact, its variance nil
        assert estimate == pytest.approx(math.exp(-amplification), rel=1e-5)
    else:
        assert abs(estimate - (q * k).sum().exp()) < 4 * standard_error


@pytest.mark.parametrize("amplification", [0.1, 0.25])
@pytest.mark.parametrize("angle", ["equal", "random", "orthogonal"])
def test_proof2_variance(amplification, angle):
    q, k = pairs_of_length(amplification)[angle]
    proj = draw_projection(DRAWS, WIDTH, kind="iid", generator=torch.Generator().manual_seed(8)).double()
    single = (positive_features(q, proj) * positive_features(k, proj)).flatten() * DRAWS
    assert single.var().item() == pytest.approx(kernel_variance(q[0], k[0], 1).item(), rel=0.15)


def test_proof2_variance_falls_with_the_number_of_features():
    q, k = pairs_of_length(1.0)["random"]
    assert kernel_variance(q, k, 128) == pytest.approx(kernel_variance(q, k, 1).item() / 128)


@pytest.mark.parametrize("amplification", [0.1, 0.25])
def test_orthogonal_rows_have_no_more_variance_than_iid(amplification):
    width = 8
    q = of_length(amplification, 1, width)
    generator = torch.Generator().manual_seed(9)

    def spread(kind):
        draws = [draw_projection(width, width, kind=kind, generator=generator) for _ in range(20_000)]
        features = positive_features(q, torch.cat(draws)).view(len(draws), width) * len(draws) ** 0.5
        return features.square().sum(-1).var().item()

    iid, orthogonal = spread("iid"), spread("orthogonal")
    assert orthogonal < 0.95 * iid


def test_heavy_tail_at_the_papers_amplification():
    """One draw at q = k, k = 6 deviates by 1.6e5 times the value; typical draws lie far below it."""
    q = of_length(6.0, 1, WIDTH, dtype=torch.float64)
    relative_deviation = kernel_variance(q[0], q[0], 1).sqrt().item() / math.exp(6)
    assert relative_deviation == pytest.approx(math.exp(12), rel=1e-4)  # 1.6e5
    generator = torch.Generator().manual_seed(10)
    proj = torch.cat([draw_projection(128, WIDTH, generator=generator) for _ in range(2000)]).double()
    estimates = positive_features(q, proj).square().view(2000, 128).sum(-1) * 2000
    share = (estimates / math.exp(6)).quantile(torch.tensor([0.5, 0.9], dtype=torch.float64))
    # Measured over three seeds: 2.2 to 2.4 % and 26 to 28 %.
    assert share[0] < 0.025
    assert share[1] < 0.3


@pytest.mark.parametrize("amplification", [1.0, 6.0, 16.0, 36.0, 64.0])
def test_features_cannot_overflow_float32(amplification):
    """The worst direction is along F's longest row; at width 64 a row longer than 12 has probability 4e-8."""
    proj = draw_projection(4096, WIDTH, generator=torch.Generator().manual_seed(11))
    proj[0] = normalize(proj[0], dim=0) * 12
    worst = normalize(proj, dim=-1) * amplification**0.5
    phi = positive_features(worst, proj)
    assert phi.isfinite().all()
    assert phi.max() < torch.finfo(torch.float32).max / 1e6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_computed_in_at_least_float32(dtype):
    u = of_length(6.0, 2, 10, WIDTH).to(dtype)
    proj = draw_projection(32, WIDTH)
    phi = positive_features(u, proj)
    assert phi.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    reference = torch.exp(u.double() @ proj.double().T - u.double().square().sum(-1, keepdim=True) / 2) / 32**0.5
    assert torch.allclose(phi.double(), reference, rtol=1e-4)


def test_autocast_does_not_narrow_them():
    u, proj = of_length(6.0, 50, WIDTH), draw_projection(32, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = positive_features(u, proj)
    assert torch.equal(inside, positive_features(u, proj))


def test_authors_eps():
    u, proj = of_length(6.0, 50, WIDTH), draw_projection(32, WIDTH)
    assert torch.allclose(positive_features(u, proj, eps=1e-4), positive_features(u, proj) + 1e-4 / 32**0.5)
    assert torch.allclose(log_features(u, proj, 1e-4).exp() / 32**0.5, positive_features(u, proj, 1e-4), rtol=1e-4)


def test_float16_would_overflow():
    """Why float32: along a long row the paper's k = 6 already exceeds float16's 65504."""
    row = torch.zeros(1, WIDTH)
    row[0, 0] = 9.5
    u = torch.zeros(1, WIDTH)
    u[0, 0] = 6**0.5
    assert positive_features(u, row) > 65504
