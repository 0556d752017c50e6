import torch
from torch.nn.functional import scaled_dot_product_attention

from enlcn.ops.softmax_attention import correlation_row, softmax_attention
from tests.ops.vectors import of_length


def test_eq1_against_torch():
    q, k, v = of_length(6.0, 2, 65, 16), of_length(6.0, 2, 65, 16), torch.randn(2, 65, 24)
    oracle = scaled_dot_product_attention(q, k, v, scale=1.0)
    assert torch.allclose(softmax_attention(q, k, v), oracle, atol=1e-5)
    assert torch.allclose(softmax_attention(q, k, v, chunk_size=20), oracle, atol=1e-5)


def test_correlation_row_is_that_querys_weights():
    q, k, v = of_length(6.0, 1, 40, 8), of_length(6.0, 1, 40, 8), torch.randn(1, 40, 3)
    row = correlation_row(q, k, 17)
    assert torch.allclose(row.sum(-1), torch.ones(1))
    assert torch.allclose(row @ v[0], softmax_attention(q, k, v)[:, 17], atol=1e-5)
