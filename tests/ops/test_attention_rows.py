"""Rows computed for one query equal those of the whole attention: it is linear in v, so they are its slopes."""

import pytest
import torch

from enlcn.ops import attention_rows
from enlcn.ops.criss_cross import criss_cross_attention
from enlcn.ops.hashed_attention import hashed_attention
from enlcn.ops.linear_attention import linear_attention
from enlcn.ops.projection import draw_projection
from enlcn.ops.softmax_attention import softmax_attention
from tests.ops.vectors import of_length

SIZE = (21, 33)  # 693 positions: buckets that do not come out even
COUNT = SIZE[0] * SIZE[1]
PROJECTION = draw_projection(16, 8, generator=torch.Generator().manual_seed(1))
ROTATIONS = attention_rows.fixed_rotations(8)


@pytest.fixture
def pair():
    return of_length(6.0, 1, COUNT, 8), of_length(6.0, 1, COUNT, 8)


def grid(tokens):
    return tokens.mT.unflatten(2, SIZE)


WHOLE = {
    "exact": softmax_attention,
    "features": lambda q, k, v: linear_attention(q, k, v, PROJECTION, eps=1e-4),
    "hashed": lambda q, k, v: hashed_attention(q, k, v, ROTATIONS),
    "criss-cross": lambda q, k, v: criss_cross_attention(grid(q), grid(k), grid(v)).flatten(2).mT,
}
ROWS = {
    "exact": attention_rows.exact_row,
    "features": lambda q, k, index: attention_rows.features_row(q, k, index, PROJECTION, 1e-4),
    "hashed": lambda q, k, index: attention_rows.hashed_row(
        q, k, index, attention_rows.hashed_order(k, ROTATIONS, 144), 144
    ),
    "criss-cross": lambda q, k, index: attention_rows.criss_cross_row(q, k, index, SIZE),
}


@pytest.mark.parametrize("point", [(0, 0), (32, 20), (7, 13)])
@pytest.mark.parametrize("weighing", ROWS)
def test_row_equals_the_whole_attention(pair, point, weighing):
    q, k = pair
    index = point[1] * SIZE[1] + point[0]
    v = torch.zeros(1, COUNT, 1, requires_grad=True)
    (slopes,) = torch.autograd.grad(WHOLE[weighing](q, k, v)[0, index, 0], v)
    row = ROWS[weighing](q[0], k[0], index)
    torch.testing.assert_close(row, slopes.flatten(), atol=1e-6, rtol=1e-4)
    assert row.sum().item() == pytest.approx(1, abs=1e-5)


def test_hash_order_does_not_depend_on_the_length_of_keys(pair):
    k = pair[1][0]
    orders = [attention_rows.hashed_order(length * k, ROTATIONS, 144) for length in (1, 3)]
    assert torch.equal(*orders)
