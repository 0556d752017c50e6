"""EDSR's parts: residual block, upsampler, mean shift.

Axes: B batch, C channels, H rows, W columns, s scale.
"""

from torch import Tensor, nn

from enlcn.ops.narrow_convolution import narrow_conv3x3, suits
from enlcn.ops.precision import no_autocast


def conv3x3(channels_in: int, channels_out: int) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size."""
    return nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)


class ResidualBlock(nn.Module):
    """x + res_scale * conv(relu(conv(x))), `width` channels between the two. (B, C, H, W) -> (B, C, H, W)."""

    halo = 2  # how far it sees

    def __init__(self, channels: int, *, res_scale: float, width: int | None = None):
        super().__init__()
        self.conv1 = conv3x3(channels, width or channels)
        self.conv2 = conv3x3(width or channels, channels)
        self.res_scale = res_scale

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        return x + self.res_scale * self.conv2(self.conv1(x).relu())


class Upsampler(nn.Sequential):
    """Features to pixels; the convolution to RGB runs in float32 even under autocast.

    In bfloat16 a pixel near 0.5 would be off by up to half a grey level.
    """

    to_rgb: int  # which step is that convolution

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 3, sH, sW), in float32 (float64 for float64 weights)."""
        for index, step in enumerate(self):
            if index == self.to_rgb:
                assert isinstance(step, nn.Conv2d)
                x = _to_float32(x, step)
            else:
                x = step(x)
        return x


def _to_float32(x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """`convolution`, computed and answered in at least float32. (B, C, H, W) -> (B, O, H, W)."""
    if suits(x, convolution.weight):
        assert convolution.bias is not None
        return narrow_conv3x3(x, convolution.weight) + convolution.bias.view(1, -1, 1, 1)
    with no_autocast(x.device):
        out: Tensor = convolution(x.to(convolution.weight.dtype))
    return out


class StepwiseUpsampler(Upsampler):
    """EDSR's: a 3x3 and a pixel shuffle per factor of 2 (one for 3), then a 3x3 to RGB.

    (B, C, H, W) -> (B, 3, sH, sW).
    """

    def __init__(self, channels: int, *, scale: int):
        factors = {2: [2], 3: [3], 4: [2, 2]}[scale]
        steps: list[nn.Module] = []
        for factor in factors:
            steps += [conv3x3(channels, channels * factor**2), nn.PixelShuffle(factor)]
        super().__init__(*steps, conv3x3(channels, 3))
        self.to_rgb = len(steps)


class DirectUpsampler(Upsampler):
    """One 3x3 straight to the sub-pixels of RGB. (B, C, H, W) -> (B, 3, sH, sW)."""

    to_rgb = 0

    def __init__(self, channels: int, *, scale: int):
        super().__init__(conv3x3(channels, 3 * scale**2), nn.PixelShuffle(scale))


UPSAMPLERS = {"stepwise": StepwiseUpsampler, "direct": DirectUpsampler}
