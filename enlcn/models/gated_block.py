"""A residual block for light networks: wide, deep and with few weights, since no kernel is between all channels.

Axes: B batch, C channels, H rows, W columns, J channels inside, K side of the kernel.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear

from enlcn.ops.gate import can_run, gate
from enlcn.ops.precision import at_least_float32

# Many fresh blocks in a row begin near the identity.
_FIRST_SHARE = 0.3
_EPS = 1e-4  # of a mean square: a pixel whose numbers are all about 0 is not blown up


class GatedBlock(nn.Module):
    """x + res_scale * project((said + offset) * spread(heard)), with (said, heard) = expand(x / rms(x)).

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
        self.expand = nn.Conv2d(channels, 2 * width, 1, bias=False)
        self.offset = nn.Parameter(torch.empty(width))
        self.spread = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
        self.project = nn.Conv2d(width, channels, 1)
        self.res_scale = res_scale
        with torch.no_grad():
            self.offset.uniform_(-(channels**-0.5), channels**-0.5)  # as the bias of a 1x1 convolution begins
            self.project.weight *= _FIRST_SHARE

    @property
    def dense(self) -> tuple[nn.Conv2d, nn.Conv2d]:
        """The convolutions between all channels: res_scale multiplies what the last gives."""
        return self.expand, self.project

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        branch = self._by_kernels if self.backend != "naive" and can_run(x, self.spread.weight) else self._by_pytorch
        residual = branch(normalised(x))
        return x + (residual if self.res_scale == 1 else self.res_scale * residual)

    def _by_kernels(self, x: Tensor) -> Tensor:
        assert self.spread.bias is not None
        expanded = to_planes(self.expand.weight, x)
        product = gate(expanded, self.offset, self.spread.weight, self.spread.bias, backend=self.backend)
        return from_planes(self.project, product)

    def _by_pytorch(self, x: Tensor) -> Tensor:
        assert self.spread.bias is not None
        # The offset as half of a bias: no pass of its own.
        bias = torch.cat([self.offset, torch.zeros_like(self.offset)])
        expanded = conv2d(x, self.expand.weight, bias)  # (B, 2J, H, W)
        product = gate(expanded, None, self.spread.weight, self.spread.bias, backend="naive")
        projected: Tensor = self.project(product)
        return projected


def normalised(x: Tensor) -> Tensor:
    """x over the root of the mean square of each pixel's numbers, in x's type. (B, C, H, W) -> (B, C, H, W)."""
    exact = at_least_float32(x)
    return (exact * torch.rsqrt(exact.square().mean(1, keepdim=True) + _EPS)).to(x.dtype)


def to_planes(weight: Tensor, x: Tensor) -> Tensor:
    """A 1x1 convolution without bias, as the matrix product it is: what `gate` takes as it lies.

    (J, C, 1, 1), (B, C, H, W), best channels_last -> (B, J, H, W), each channel of all images in one piece.
    """
    batch, channels, height, width = x.shape
    pixels = x.permute(0, 2, 3, 1).reshape(-1, channels)
    return torch.mm(weight.flatten(1), pixels.t()).view(-1, batch, height, width).transpose(0, 1)


def from_planes(convolution: nn.Conv2d, planes: Tensor) -> Tensor:
    """A 1x1 convolution of such planes. (B, J, H, W) -> (B, C, H, W), channels_last."""
    batch, inner, height, width = planes.shape
    pixels = planes.transpose(0, 1).reshape(inner, -1).t()
    out = linear(pixels, convolution.weight.flatten(1), convolution.bias)
    return out.view(batch, height, width, -1).permute(0, 3, 1, 2)
