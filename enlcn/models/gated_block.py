"""A residual block for light networks: wide, deep and with few weights, since no kernel is between all channels.

Axes: B batch, C channels, H rows, W columns, J channels inside, K side of the kernel.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from enlcn.ops.gate import gate
from enlcn.ops.precision import at_least_float32

# Many fresh blocks in a row begin near the identity.
_FIRST_SHARE = 0.3
_EPS = 1e-4  # of a mean square: a pixel whose numbers are all about 0 is not blown up


class GatedBlock(nn.Module):
    """x + res_scale * project(said * spread(heard)), with (said, heard) = expand(x / rms(x)).

    `expand` and `project` are 1x1; `spread` is a depthwise KxK: what is heard around a pixel multiplies what it says.

    Args:
        channels: C.
        res_scale: the factor of the branch.
        width: J; None for C.
        kernel: K, odd.
    """

    backend = "auto"  # of `gate`

    def __init__(self, channels: int, *, res_scale: float, width: int | None = None, kernel: int = 7):
        super().__init__()
        width = width or channels
        self.expand = nn.Conv2d(channels, 2 * width, 1)
        self.spread = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
        self.project = nn.Conv2d(width, channels, 1)
        self.res_scale = res_scale
        with torch.no_grad():
            self.project.weight *= _FIRST_SHARE

    @property
    def dense(self) -> tuple[nn.Conv2d, nn.Conv2d]:
        """The convolutions between all channels: res_scale multiplies what the last gives."""
        return self.expand, self.project

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        expanded = mixed(self.expand, normalised(x))  # (B, 2J, H, W)
        assert self.spread.bias is not None
        product = gate(expanded, self.spread.weight, self.spread.bias, backend=self.backend)
        residual = mixed(self.project, product)
        return x + (residual if self.res_scale == 1 else self.res_scale * residual)


def normalised(x: Tensor) -> Tensor:
    """x over the root of the mean square of each pixel's numbers, in x's type. (B, C, H, W) -> (B, C, H, W)."""
    exact = at_least_float32(x)
    return (exact * torch.rsqrt(exact.square().mean(1, keepdim=True) + _EPS)).to(x.dtype)


def mixed(convolution: nn.Conv2d, x: Tensor) -> Tensor:
    """A 1x1 convolution, on GPUs as the matrix product it is: that one adds the bias before it writes.

    (B, C, H, W) -> (B, D, H, W).
    """
    out: Tensor = as_product(convolution, x) if x.is_cuda else convolution(x)
    return out


def as_product(convolution: nn.Conv2d, x: Tensor) -> Tensor:
    """See `mixed`; for channels_last."""
    return linear(x.permute(0, 2, 3, 1), convolution.weight.flatten(1), convolution.bias).permute(0, 3, 1, 2)
