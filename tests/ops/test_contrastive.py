import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from enlcn.ops.contrastive import PAPER, RELEASED, Contrast, contrastive_loss, contrastive_loss_naive
from tests.ops.vectors import of_length

FORMS = {
    "default": Contrast(),
    "paper": PAPER,
    "released": replace(RELEASED, margin=3.0),
    "wide margin": Contrast(margin=3.0),
}


def pair(batch, n, amplification=6.0, dtype=torch.float32, width=16):
    return [of_length(amplification, batch, n, width).to(dtype) for _ in range(2)]


def value_and_gradients(loss, q, k, contrast):
    q, k = q.clone().requires_grad_(), k.clone().requires_grad_()
    value = loss(q, k, contrast)
    return [value.detach(), *torch.autograd.grad(value, (q, k))]


def test_ranking_and_loss_by_hand():
    """N = 100: ranks 0, 1 against ranks 8, 9 of each row, in numbers one can check."""
    q, k = pair(1, 100)
    expected = []
    for i in range(100):
        t = sorted((torch.dot(q[0, i], k[0, j]).item() for j in range(100)), reverse=True)
        ratio = torch.tensor(t[:2]).exp().sum() / torch.tensor(t[8:10]).exp().sum()
        expected.append((-ratio.log() + 1).item())
    assert contrastive_loss_naive(q, k, PAPER).item() == pytest.approx(sum(expected) / 100, rel=1e-4)
    hinged = sum(max(0.0, term) for term in expected) / 100
    assert contrastive_loss_naive(q, k).item() == pytest.approx(hinged, rel=1e-4)


def test_released_form_by_hand():
    q, k = pair(1, 80)
    ranked = (q[0] @ k[0].T).exp().sort(dim=-1, descending=True).values
    terms = -torch.log(ranked[:, :15].mean(-1) / (ranked[:, 50:65].mean(-1) + 1e-6)) + 1
    assert contrastive_loss_naive(q, k, RELEASED).item() == pytest.approx(terms.relu().mean().item(), abs=1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("batch", "n"), [(1, 65), (3, 65), (1, 1000), (3, 200), (1, 2304)])
def test_fast_equals_naive(form, dtype, batch, n, monkeypatch):
    monkeypatch.setattr("enlcn.ops.contrastive._CHUNK_SCORES", 50_000)  # many chunks
    q, k = pair(batch, n, dtype=dtype, amplification=2.0)
    naive = value_and_gradients(contrastive_loss_naive, q, k, FORMS[form])
    fast = value_and_gradients(contrastive_loss, q, k, FORMS[form])
    assert naive[0] != 0
    assert fast[0].item() == pytest.approx(naive[0].item(), rel=1e-4, abs=1e-6)
    # Two scores that differ by rounding alone may change ranks between a whole product and its chunks, and a term
    # may fall on either side of the hinge: a few rows' gradients then differ, which float64 does not see.
    limit = {torch.float64: 1e-9, torch.float32: 0.01, torch.bfloat16: 0.03}[dtype]
    for slow_gradient, fast_gradient in zip(naive[1:], fast[1:], strict=True):
        assert slow_gradient.norm() > 0
        assert (slow_gradient.double() - fast_gradient.double()).norm() < limit * slow_gradient.double().norm()


@pytest.mark.parametrize("n", [2, 63])
def test_fast_equals_naive_at_odd_sizes(n):
    q, k = pair(3, n, dtype=torch.float64, amplification=2.0)
    for slow, fast in zip(
        value_and_gradients(contrastive_loss_naive, q, k, PAPER),
        value_and_gradients(contrastive_loss, q, k, PAPER),
        strict=True,
    ):
        assert torch.allclose(slow, fast, atol=1e-12)


def test_gradient_scales_with_what_comes_back():
    q, k = (t.requires_grad_() for t in pair(1, 50, amplification=1.0))
    once = torch.autograd.grad(contrastive_loss(q, k), q)[0]
    thrice = torch.autograd.grad(3 * contrastive_loss(q, k), q)[0]
    assert torch.allclose(thrice, 3 * once, rtol=1e-5)


@pytest.mark.parametrize("differentiated", ["q", "k", "both"])
def test_second_derivatives_are_those_of_the_equation(differentiated):
    seconds = []
    q, k = (t.requires_grad_() for t in pair(2, 40, dtype=torch.float64, amplification=2.0))
    for loss in (contrastive_loss_naive, contrastive_loss):
        by = {"q": [q], "k": [k], "both": [q, k]}[differentiated]
        gradients = torch.autograd.grad(3 * loss(q, k, PAPER), by, create_graph=True)
        seconds.append(torch.autograd.grad(sum(g.square().sum() for g in gradients), (q, k)))
    for slow, fast in zip(*seconds, strict=True):
        assert slow.norm() > 0
        assert torch.allclose(slow, fast, atol=1e-12)


@pytest.mark.parametrize("loss", [contrastive_loss, contrastive_loss_naive])
def test_what_are_no_queries_and_keys_is_told(loss):
    for q, k in (((2, 4, 30, 8),) * 2, ((64, 8),) * 2, ((2, 30, 8), (2, 30, 4)), ((2, 30, 8), (1, 30, 8))):
        with pytest.raises(ValueError, match=r"q and k must be \(B, N, D\); got .*; heads go into B"):
            loss(torch.rand(q), torch.rand(k))


@pytest.mark.parametrize("loss", [contrastive_loss, contrastive_loss_naive])
def test_an_empty_batch_has_no_loss(loss):
    q, k = torch.rand(0, 30, 8, requires_grad=True), torch.rand(0, 30, 8, requires_grad=True)
    value = loss(q, k)
    value.backward()
    assert value == 0


@pytest.mark.parametrize("n", [2, 3, 5, 12, 49])
def test_small_n_keeps_the_windows_inside(n):
    count, start = Contrast().ranks(n)
    assert count >= 1
    assert start >= 1
    assert start + count <= n
    q, k = pair(2, n, amplification=1.0)
    assert contrastive_loss(q, k).item() == pytest.approx(contrastive_loss_naive(q, k).item(), rel=1e-4)


def test_wide_windows_are_clamped():
    assert Contrast(relevant_fraction=0.5, irrelevant_start=0.9).ranks(10) == (5, 5)
    assert Contrast(relevant_fraction=1.0, irrelevant_start=0.5).ranks(10) == (10, 0)


def test_ranks_are_the_papers_shares():
    assert Contrast().ranks(784) == (16, 63)
    assert RELEASED.ranks(784) == (15, 50)


@pytest.mark.parametrize("loss", [contrastive_loss, contrastive_loss_naive])
@pytest.mark.parametrize("n", [0, 1])
def test_nothing_to_rank_gives_zero(loss, n):
    q, k = (t.requires_grad_() for t in pair(1, n))
    value = loss(q, k)
    value.backward()
    assert value == 0
    assert q.grad.abs().sum() == 0


def test_released_ranks_need_65_positions():
    q, k = pair(1, 64)
    for loss in (contrastive_loss, contrastive_loss_naive):
        with pytest.raises(ValueError, match="at least 65 positions, got 64"):
            loss(q, k, RELEASED)


def test_random_rows_are_unbiased():
    """Over many draws the mean meets the full value within four standard errors."""
    q, k = pair(2, 60, amplification=1.0)
    full = contrastive_loss(q, k).item()
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([contrastive_loss(q, k, num_rows=5, generator=generator) for _ in range(2000)])
    assert draws.std() > 0
    assert abs(draws.mean().item() - full) < 4 * draws.std().item() / 2000**0.5
    assert contrastive_loss(q, k, num_rows=60).item() == pytest.approx(full)
    with pytest.raises(ValueError, match="at least 1"):
        contrastive_loss(q, k, num_rows=0)


def test_shares_outside_one_are_refused():
    with pytest.raises(ValueError, match="shares"):
        Contrast(relevant_fraction=2.0)


MEMORY_PROBE = """
import torch
from torch.nn.functional import normalize
from enlcn.ops.contrastive import contrastive_loss

def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) * 1024

warm = normalize(torch.randn(1, 100, 64), dim=-1).requires_grad_()
contrastive_loss(warm, warm).backward()
before = peak()
pairs = [[(normalize(torch.randn(32, 2304, 64), dim=-1) * 6**0.5).requires_grad_() for _ in "qk"] for _ in range(5)]
loss = torch.stack([contrastive_loss(q, k) for q, k in pairs]).mean()
loss.backward()
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads peak memory from /proc")
def test_five_modules_of_batch_32_at_2304_positions_train_within_2_gb():
    run = subprocess.run([sys.executable, "-c", MEMORY_PROBE], check=True, capture_output=True, text=True)
    assert int(run.stdout) < 2e9
