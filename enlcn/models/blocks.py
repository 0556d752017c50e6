"""EDSR's parts: residual block, upsampler, mean shift.

Axes: B batch, C channels, H rows, W columns, s scale.
"""

from torch import Tensor, nn

from enlcn.ops import shuffle_to_rgb
from enlcn.ops.precision import no_autocast


def conv3x3(channels_in: int, channels_out: int) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size."""
    return nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)


class ResidualBlock(nn.Module):
    """x + res_scale * conv(relu(conv(x))), `width` channels between the two. (B, C, H, W) -> (B, C, H, W)."""

    def __init__(self, channels: int, *, res_scale: float, width: int | None = None):
        super().__init__()
        self.conv1 = conv3x3(channels, width or channels)
        self.conv2 = conv3x3(width or channels, channels)
        self.res_scale = res_scale

    @property
    def dense(self) -> tuple[nn.Conv2d, nn.Conv2d]:
        """The convolutions between all channels: res_scale multiplies what the last gives."""
        return self.conv1, self.conv2

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        residual: Tensor = self.conv2(self.conv1(x).relu())
        return x + (residual if self.res_scale == 1 else self.res_scale * residual)


class Upsampler(nn.Sequential):
    """Features to pixels; what gives pixels runs in float32 even under autocast.

    In bfloat16 a pixel near 0.5 would be off by up to half a grey level.
    """

    to_rgb: int  # which step gives RGB
    folds = True  # EDSR's last three steps are computed as one; step by step they give the same, more slowly

    def autocast_steps(self) -> list[nn.Conv2d]:
        """Convolutions that always run in autocast's precision: those before the ones computed as one."""
        return [step for step in self if isinstance(step, nn.Conv2d)][:-2]


class StepwiseUpsampler(Upsampler):
    """EDSR's: a 3x3 and a pixel shuffle per factor of 2 (one for 3), then a 3x3 to RGB.

    The last three are computed as one, from their weights: hooks on them are not called unless `folds` is False.

    (B, C, H, W) -> (B, 3, sH, sW).
    """

    def __init__(self, channels: int, *, scale: int):
        factors = {2: [2], 3: [3], 4: [2, 2]}[scale]
        steps: list[nn.Module] = []
        for factor in factors:
            steps += [conv3x3(channels, channels * factor**2), nn.PixelShuffle(factor)]
        super().__init__(*steps, conv3x3(channels, 3))
        self.to_rgb = len(steps)

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 3, sH, sW), in float32 (float64 for float64 weights)."""
        *steps, wide, shuffle, last = self
        for step in steps:
            x = step(x)
        assert isinstance(wide, nn.Conv2d)
        assert isinstance(shuffle, nn.PixelShuffle)
        assert isinstance(last, nn.Conv2d)
        assert wide.bias is not None
        assert last.bias is not None
        finish = shuffle_to_rgb.folded if self.folds else shuffle_to_rgb.naive
        return finish(x, wide.weight, wide.bias, last.weight, last.bias, shuffle.upscale_factor)


class DirectUpsampler(Upsampler):
    """One 3x3 straight to the sub-pixels of RGB. (B, C, H, W) -> (B, 3, sH, sW)."""

    to_rgb = 0

    def __init__(self, channels: int, *, scale: int):
        super().__init__(conv3x3(channels, 3 * scale**2), nn.PixelShuffle(scale))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 3, sH, sW), in float32 (float64 for float64 weights)."""
        convolution, shuffle = self
        assert isinstance(convolution, nn.Conv2d)
        with no_autocast(x.device):
            sub_pixels = convolution(x.to(convolution.weight.dtype))
        pixels: Tensor = shuffle(sub_pixels)
        return pixels


UPSAMPLERS = {"stepwise": StepwiseUpsampler, "direct": DirectUpsampler}
