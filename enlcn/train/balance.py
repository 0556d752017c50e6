"""Residual blocks whose two convolutions are of one size: the same function, and both learn alike.

ReLU lets positive factors through: what the first convolution gives a hidden channel may be multiplied by any, if the
second divides by it. Adam's steps are of one length whatever a weight's size, so that in a block whose second
convolution is a hundred times as large as its first, only the first would learn. Factors are powers of two, by which
numbers are multiplied exactly.
"""

import torch
from torch import Tensor

from enlcn.models.backbone import SRNetwork
from enlcn.models.blocks import ResidualBlock


@torch.no_grad()
def balance(network: SRNetwork) -> None:
    """Balance every residual block of `network`, in place."""
    for module in network.modules():
        if isinstance(module, ResidualBlock):
            factors = balancing_factors(module.conv1.weight, module.conv2.weight)
            assert module.conv1.bias is not None
            module.conv1.weight *= factors.view(-1, 1, 1, 1)
            module.conv1.bias *= factors
            module.conv2.weight /= factors.view(1, -1, 1, 1)


def balancing_factors(into: Tensor, out_of: Tensor) -> Tensor:
    """Powers of two that make both sides of each hidden channel about as large. (J, C, 3, 3), (C, J, 3, 3) -> (J,)."""
    before = into.square().mean((1, 2, 3))
    after = out_of.square().mean((0, 2, 3))
    factors = torch.exp2(((after / before).log2() / 4).round())
    return torch.where((before > 0) & (after > 0), factors, 1.0)
