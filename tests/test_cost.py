import pytest
import torch

from enlcn import recipes
from enlcn.cost import conv3x3_flops, enlca_flops, network_flops, nla_flops, nlsa_flops, num_parameters

N, WIDTH = 100 * 100, 64


def gigaflops(flops):
    return f"{flops / 1e9:.2f}"


def test_papers_efficiency_table():
    assert gigaflops(nla_flops(N, WIDTH, WIDTH)) == "25.60"
    assert gigaflops(conv3x3_flops(N, WIDTH, WIDTH)) == "0.74"
    ours = [gigaflops(enlca_flops(N, WIDTH, WIDTH, m)) for m in (256, 128, 64, 32, 16, 8, 4, 2)]
    assert ours == ["1.31", "0.66", "0.33", "0.16", "0.08", "0.04", "0.02", "0.01"]


def test_nlsa_lies_between_enlca_and_nla():
    # The paper's 5.08 counts something we do not know; ours counts three buckets in each of four rounds.
    assert enlca_flops(N, WIDTH, WIDTH, 256) < nlsa_flops(N, WIDTH, WIDTH) < nla_flops(N, WIDTH, WIDTH)


@pytest.mark.parametrize("folds", [False, True])
@pytest.mark.parametrize("name", ["edsr", "enlcn"])
def test_network_flops_against_a_count_by_hand(name, folds):
    config = recipes.NETWORKS[name]
    n, c, d, m = 20 * 30, config.channels, config.query_width, config.attention.num_features
    # After the first shuffle: two convolutions, or one to 48 channels and the product that makes it.
    end = 4 * 48 * c * n + 48 * 4 * c * c if folds else n * (4 * 4 * c * c + 16 * c * 3)
    convolutions = 9 * (n * (3 * c + 2 * config.num_blocks * c * c + c * c + 4 * c * c) + end)
    # Projections to q and k; phi of both; kx and its application; D; psi on the summary.
    attention = 2 * n * c * d + 2 * n * d * m + 2 * n * m * c + n * m + m * c * c
    expected = 2 * (convolutions + config.num_attentions * attention)
    assert network_flops(config, 20, 30, folds=folds) == pytest.approx(expected, rel=1e-5 if folds else 0)


def test_cost_of_enlcn_is_linear_in_pixels():
    small, large = network_flops(recipes.SMALL, 32, 32), network_flops(recipes.SMALL, 64, 64)
    assert large == pytest.approx(4 * small, rel=0.01)


def test_num_parameters_counts_what_is_trained():
    from enlcn.models.backbone import SRNetwork

    network = SRNetwork(recipes.TINY)
    assert num_parameters(recipes.TINY) == sum(p.numel() for p in network.parameters())
    assert torch.numel(network.attentions[0].projection) > 0
