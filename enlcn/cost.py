"""What attention and networks cost, in floating-point operations (a multiply-add counts as two).

The attention formulas are the paper's (efficiency table): the 1x1 projections and the normaliser D are left out.
"""

import torch
from torch.utils.flop_counter import FlopCounterMode

from enlcn.config import ModelConfig
from enlcn.models.backbone import SRNetwork


def enlca_flops(num_positions: int, query_width: int, channels: int, num_features: int) -> int:
    """phi(Q), phi(K) from F; phi(K) V^T; phi(Q)^T (kv): 2 (2 m N c + 2 m N c_out)."""
    return 4 * num_features * num_positions * (query_width + channels)


def nla_flops(num_positions: int, query_width: int, channels: int) -> int:
    """Q^T K and its product with V: 2 (N^2 c + N^2 c_out)."""
    return 2 * num_positions**2 * (query_width + channels)


def nlsa_flops(num_positions: int, query_width: int, channels: int, num_rounds: int = 4, bucket_size: int = 144) -> int:
    """Each query meets three buckets in each round; hashing and sorting left out."""
    return 2 * num_rounds * num_positions * 3 * bucket_size * (query_width + channels)


def conv3x3_flops(num_positions: int, channels_in: int, channels_out: int) -> int:
    """A 3x3 convolution that keeps the size."""
    return 2 * 9 * num_positions * channels_in * channels_out


def network_flops(config: ModelConfig, height: int, width: int, *, folds: bool = True) -> int:
    """Every convolution and matrix product of one forward pass on an LR image of height x width, counted.

    Args:
        config: the network.
        height, width: of the LR image.
        folds: count EDSR's last layers as one, as we compute them, instead of layer by layer.
    """
    with torch.device("meta"):
        network = SRNetwork(config).eval()
        network.upsampler.folds = folds
        lr = torch.empty(1, 3, height, width)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(lr)
    return counter.get_total_flops()


def num_parameters(config: ModelConfig) -> int:
    """Trained numbers (random matrices are not)."""
    with torch.device("meta"):
        return sum(p.numel() for p in SRNetwork(config).parameters())
