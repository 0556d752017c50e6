"""Rows computed for one query equal those taken from the whole attention."""

import pytest
import torch

from enlcn.attention_map import attention_maps
from enlcn.checkpoint import load
from enlcn.serve import attention_rows

SIZE = (21, 33)  # 693 positions: buckets that do not come out even


@pytest.fixture(scope="module")
def case():
    torch.manual_seed(0)
    network = load("untrained:enlcn-tiny-x2")
    lr = torch.rand(1, 3, *SIZE)
    with torch.no_grad():
        x = network.head(lr - network.rgb_mean)
        q, k = network.attentions[0].queries_keys(x)
    return network, lr, q[0], k[0]


def whole_row(network, lr, point, weighing):
    (drawn,) = attention_maps(network, lr, point, modules=[1], weighings=[weighing])
    return drawn.weights.flatten()


@pytest.mark.parametrize("point", [(0, 0), (32, 20), (7, 13)])
@pytest.mark.parametrize("weighing", ["exact", "features", "hashed", "criss-cross"])
def test_row_equals_the_whole_attention(case, point, weighing):
    network, lr, q, k = case
    index = point[1] * SIZE[1] + point[0]
    order = attention_rows.hashed_order(k, attention_rows.fixed_rotations(q.shape[1]), 144)
    row = {
        "exact": lambda: attention_rows.exact_row(q, k, index),
        "features": lambda: attention_rows.features_row(q, k, index, network.attentions[0].projection),
        "hashed": lambda: attention_rows.hashed_row(q, k, index, order, 144),
        "criss-cross": lambda: attention_rows.criss_cross_row(q, k, index, SIZE),
    }[weighing]()
    torch.testing.assert_close(row, whole_row(network, lr, point, weighing), atol=1e-6, rtol=1e-4)
    assert row.sum().item() == pytest.approx(1, abs=1e-5)


def test_hash_order_does_not_depend_on_the_length_of_keys(case):
    *_, k = case
    rotations = attention_rows.fixed_rotations(k.shape[1])
    assert torch.equal(
        attention_rows.hashed_order(k, rotations, 144), attention_rows.hashed_order(3 * k, rotations, 144)
    )
