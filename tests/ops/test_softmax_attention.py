import torch
from torch.nn.functional import scaled_dot_product_attention

from enlcn.ops.softmax_attention import softmax_attention
from tests.ops.vectors import of_length


def test_eq1_against_torch():
    q, k, v = of_length(6.0, 2, 65, 16), of_length(6.0, 2, 65, 16), torch.randn(2, 65, 24)
    oracle = scaled_dot_product_attention(q, k, v, scale=1.0)
    assert torch.allclose(softmax_attention(q, k, v), oracle, atol=1e-5)
    assert torch.allclose(softmax_attention(q, k, v, chunk_size=20), oracle, atol=1e-5)
