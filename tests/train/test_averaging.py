import pytest
import torch

from enlcn.train.averaging import WeightAverage


def test_is_the_weighted_mean_of_what_was_visited():
    weight = torch.zeros(3, dtype=torch.float64)
    average = WeightAverage([weight], decay=0.9)
    visited = torch.randn(12, 3, dtype=torch.float64)
    for value in visited:
        weight.copy_(value)
        average.update()
    factors = 0.9 ** torch.arange(11, -1, -1, dtype=torch.float64)
    expected = (factors[:, None] * visited).sum(0) / factors.sum()
    result = torch.empty(3, dtype=torch.float64)
    average.copy_to([result], num_updates=12)
    assert torch.allclose(result, expected)


def test_after_one_step_it_is_the_weights_and_before_it_nothing():
    weight, result = torch.randn(3), torch.full((3,), 5.0)
    average = WeightAverage([weight], decay=0.999)
    average.copy_to([result], num_updates=0)
    assert (result == 5).all()
    average.update()
    average.copy_to([result], num_updates=1)
    assert result.tolist() == pytest.approx(weight.tolist(), rel=1e-3)
