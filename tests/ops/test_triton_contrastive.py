"""The ranking kernel against the sorted equation, in Triton's interpreter or, where there is one, on the GPU."""

import os
from dataclasses import replace

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("test_triton_interpreter.py runs these in a process of their own", allow_module_level=True)

from enlcn.ops.contrastive import (
    PAPER,
    RELEASED,
    Contrast,
    by_top_k,
    contrastive_loss,
    contrastive_loss_naive,
    ranked_terms,
    triton_ranks,
)
from tests.ops.vectors import of_length

DEVICE = "cpu" if INTERPRETED else "cuda"
FORMS = {
    "default": Contrast(margin=3.0),
    "paper": PAPER,
    "released": replace(RELEASED, margin=3.0),
    "hinged away": Contrast(margin=0.5),
    "touching": Contrast(relevant_fraction=0.1, irrelevant_start=0.1),
    "to the last": Contrast(relevant_fraction=0.3, irrelevant_start=1.0),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("batch", "rows", "n"), [(2, 2, 65), (1, 2, 784), (1, 1, 2304)])
def test_terms_and_gradient_equal_top_k(form, batch, rows, n):
    contrast = FORMS[form]
    q, k = of_length(6.0, batch, rows, 16).double(), of_length(6.0, batch, n, 16).double()
    t = (q @ k.mT).to(DEVICE)
    count, start = contrast.ranks(n)
    numbers = {
        "margin": contrast.margin,
        "hinge": contrast.hinge,
        "floor": 1e-6 * count if contrast.released_ranks else 0.0,
        "slope": 0.25,
    }
    narrow = t.float()
    terms = triton_ranks.ranked_terms(narrow, count, start, **numbers, gradient=narrow)
    expected = by_top_k.ranked_terms(t, count, start, **numbers, gradient=t)
    torch.testing.assert_close(terms.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(narrow.double(), t, rtol=1e-4, atol=1e-6)
    assert (narrow != 0).sum() == (t != 0).sum()


def test_without_gradient_scores_stay():
    t = torch.randn(1, 3, 100, device=DEVICE)
    before = t.clone()
    triton_ranks.ranked_terms(t, 2, 8, margin=1.0, hinge=True, floor=0.0, slope=1.0, gradient=None)
    assert torch.equal(t, before)


def test_equal_scores_share_the_places():
    """Ten scores of 2, 90 of 1: 4 relevant places are shared by the ten, as are ranks 6 to 9."""
    t = torch.ones(1, 1, 100, device=DEVICE)
    t[..., ::10] = 2.0
    terms = triton_ranks.ranked_terms(t, 4, 6, margin=1.0, hinge=False, floor=0.0, slope=1.0, gradient=t)
    assert terms.item() == pytest.approx(1.0, abs=1e-5)
    assert t.abs().max().item() < 1e-6  # what is relevant is as irrelevant


def test_constant_rows():
    t = torch.full((1, 2, 70), -3.0, device=DEVICE)
    terms = triton_ranks.ranked_terms(t, 2, 6, margin=1.0, hinge=False, floor=0.0, slope=1.0, gradient=t)
    assert terms.tolist() == [[pytest.approx(1.0)] * 2]
    assert t.abs().max().item() < 1e-6


def test_not_a_number_reaches_the_loss():
    t = torch.randn(1, 2, 70, device=DEVICE)
    t[0, 1, 5] = float("nan")
    terms = triton_ranks.ranked_terms(t, 2, 6, margin=1.0, hinge=False, floor=0.0, slope=1.0, gradient=t)
    assert terms[0, 0].isfinite()
    assert terms[0, 1].isnan()


@pytest.mark.parametrize("form", ["default", "paper", "released"])
def test_loss_through_the_kernel_equals_naive(form, monkeypatch):
    monkeypatch.setattr("enlcn.ops.contrastive._CHUNK_SCORES", 4_000)  # several chunks
    contrast = FORMS[form]
    q, k = (of_length(2.0, 2, 70, 16).to(DEVICE).requires_grad_() for _ in range(2))
    assert ranked_terms(q @ k.mT) is triton_ranks.ranked_terms
    value = contrastive_loss(q, k, contrast)
    wide_q, wide_k = q.double(), k.double()
    expected = contrastive_loss_naive(wide_q, wide_k, contrast)
    assert value.item() == pytest.approx(expected.item(), rel=1e-3)
    for ours, theirs in zip(torch.autograd.grad(value, (q, k)), torch.autograd.grad(expected, (q, k)), strict=True):
        assert (ours - theirs).norm() < 0.01 * theirs.norm()


def test_gradient_in_16_bits():
    t = torch.randn(1, 4, 300, device=DEVICE)
    wide, narrow = t.clone(), torch.full_like(t, torch.nan, dtype=torch.bfloat16)
    numbers = {"margin": 3.0, "hinge": True, "floor": 0.0, "slope": 1.0}
    triton_ranks.ranked_terms(wide, 6, 24, **numbers, gradient=wide)
    triton_ranks.ranked_terms(t, 6, 24, **numbers, gradient=narrow)
    assert (wide - narrow).norm() < 4e-3 * wide.norm()


def test_rows_too_long_for_registers_take_top_k():
    assert ranked_terms(torch.empty(1, 1, 20_000, device=DEVICE)) is by_top_k.ranked_terms
