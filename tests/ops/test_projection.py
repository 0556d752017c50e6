import pytest
import torch
from scipy import stats

from enlcn.ops.projection import draw_projection


def draw(m, c, kind="orthogonal", seed=0):
    return draw_projection(m, c, kind=kind, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["orthogonal", "iid"])
@pytest.mark.parametrize(("m", "c"), [(1, 1), (2, 64), (64, 64), (128, 64), (100, 64), (130, 64), (7, 3)])
def test_shape_and_reproducibility(kind, m, c):
    first, again, other = draw(m, c, kind), draw(m, c, kind), draw(m, c, kind, seed=1)
    assert first.shape == (m, c)
    assert first.dtype == torch.float32
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("m", "c"), [(5, 16), (16, 16), (40, 16)])
def test_rows_are_orthogonal_within_blocks(m, c):
    rows = torch.nn.functional.normalize(draw(m, c), dim=1)
    for block in rows.split(c):
        assert torch.allclose(block @ block.T, torch.eye(len(block)), atol=1e-5)
    if m > c:  # blocks are independent of each other
        assert (rows[:c] @ rows[c:].T).abs().max() > 0.05


@pytest.mark.parametrize("kind", ["orthogonal", "iid"])
def test_row_lengths_are_chi_distributed(kind):
    lengths = draw(4096, 64, kind).norm(dim=1).numpy()
    assert stats.kstest(lengths, stats.chi(df=64).cdf).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["orthogonal", "iid"])
def test_single_row_is_a_standard_gaussian(kind):
    # One coordinate of the first row, over many draws: Haar signs matter here, plain QR fails.
    generator = torch.Generator().manual_seed(5)
    draws = torch.stack([draw_projection(3, 3, kind=kind, generator=generator) for _ in range(4000)])
    for row in range(3):
        for column in range(3):
            assert stats.kstest(draws[:, row, column].numpy(), "norm").pvalue > 1e-4


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="choose from orthogonal, iid"):
        draw_projection(4, 4, kind="hadamard")
    with pytest.raises(ValueError, match="at least one row"):
        draw_projection(0, 4)
