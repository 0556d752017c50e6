import pytest
import torch

from enlcn.ops.criss_cross import criss_cross_attention


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 6), (6, 1), (5, 7)])
def test_against_masked_full_attention(height, width):
    q, k, v = torch.randn(2, 4, height, width), torch.randn(2, 4, height, width), torch.randn(2, 3, height, width)
    rows = torch.arange(height).repeat_interleave(width)
    columns = torch.arange(width).repeat(height)
    on_cross = (rows[:, None] == rows) | (columns[:, None] == columns)
    scores = q.flatten(2).mT @ k.flatten(2)
    weights = torch.softmax(scores.masked_fill(~on_cross, -torch.inf), dim=-1)
    expected = (v.flatten(2) @ weights.mT).unflatten(2, (height, width))
    assert torch.allclose(criss_cross_attention(q, k, v), expected, atol=1e-5)
