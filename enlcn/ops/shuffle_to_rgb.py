"""A wide 3x3 convolution, a pixel shuffle and a 3x3 convolution to few channels, without the large map between them.

Nothing bends between the two convolutions, so their weights can be multiplied before any pixel is seen. Each tap of the
second falls, after the shuffle, on one channel of a wide pixel or of its neighbour: for each of them the wide weights
are folded into O channels, one narrow convolution computes them all, and each output adds up what its own and its
neighbours' wide pixels hold for it. Beyond the border there are no wide pixels, hence nothing is added there, just as
the second convolution pads with zeros.

Axes: B batch, C channels in, M channels between, O channels out, H rows, W columns, r factor, P = `places` per axis.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad, pixel_shuffle

from enlcn.ops.narrow_convolution import narrow_conv3x3, suits
from enlcn.ops.precision import no_autocast


def naive(x: Tensor, wide: Tensor, wide_bias: Tensor, last: Tensor, last_bias: Tensor, factor: int) -> Tensor:
    """Step by step.

    Args:
        x: (B, C, H, W).
        wide, wide_bias: (r² M, C, 3, 3) and (r² M).
        last, last_bias: (O, M, 3, 3) and (O).
        factor: r, 2 or 3.

    Returns:
        (B, O, r H, r W).
    """
    between = pixel_shuffle(conv2d(x, wide, wide_bias, padding=1), factor)
    with no_autocast(x.device):
        return conv2d(between.to(last.dtype), last, last_bias, padding=1)


def folded(x: Tensor, wide: Tensor, wide_bias: Tensor, last: Tensor, last_bias: Tensor, factor: int) -> Tensor:
    """As `naive`, with a twentieth of its operations and no map of r² M channels; in the precision of `last`."""
    with no_autocast(x.device):
        weight, bias = fold(wide, wide_bias, last, factor)
        if suits(x):
            held = narrow_conv3x3(x, weight) + bias.view(1, -1, 1, 1)
        else:
            held = conv2d(x.to(weight.dtype), weight, bias, padding=1)
        return unfold(held, factor) + last_bias.view(1, -1, 1, 1)


def fold(wide: Tensor, wide_bias: Tensor, last: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Weight (O P P, C, 3, 3) and bias (O P P) of the narrow convolution, in the precision of `last`."""
    between = last.shape[1]
    taps = _spread(_spread(last, 2, factor), 4, factor)  # (O, M, P, r, P, r)
    taps = taps.permute(0, 2, 4, 1, 3, 5).reshape(-1, between * factor**2)  # (O P P, r² M)
    # Channels last, as the weights lie in training and on GPUs: no copy.
    flat = wide.to(last.dtype).permute(0, 2, 3, 1).reshape(between * factor**2, -1)
    weight = (taps @ flat).view(-1, 3, 3, wide.shape[1]).permute(0, 3, 1, 2)
    return weight, taps @ wide_bias.to(last.dtype)


def unfold(held: Tensor, factor: int) -> Tensor:
    """Add up what wide pixels hold for their own and other outputs. (B, O P P, H, W) -> (B, O, r H, r W)."""
    num_places = len(places(factor))
    batch, _, height, width = held.shape
    held = held.reshape(batch, -1, num_places, num_places, height, width)
    held = _gather(_gather(held, 2, 4, factor), 3, 5, factor)  # (B, O, r, r, H, W)
    return held.permute(0, 1, 4, 2, 5, 3).reshape(batch, -1, factor * height, factor * width)


def places(factor: int) -> list[tuple[int, int]]:
    """Along one axis: each sub-pixel of a wide pixel, and each offset to a wide pixel that its three taps reach."""
    return [(sub, offset) for sub in range(factor) for offset in sorted({(sub + tap) // factor for tap in (-1, 0, 1)})]


def _spread(taps: Tensor, axis: int, factor: int) -> Tensor:
    """Along one axis, the taps where they fall on each place's wide pixel. (…, 3, …) -> (…, P, r, …)."""
    spread = []
    for sub, offset in places(factor):
        before = sub - 1 - factor * offset  # where in that pixel the first tap falls, or would
        after = factor - before - 3
        inside = taps.narrow(axis, max(-before, 0), 3 - max(-before, 0) - max(-after, 0))
        spread.append(_padded(inside, axis, max(before, 0), max(after, 0)))
    return torch.stack(spread, dim=axis)


def _gather(held: Tensor, place_axis: int, space_axis: int, factor: int) -> Tensor:
    """Along one axis: a sub-pixel's places, moved by their offsets, in one sum. (…, P, …, L, …) -> (…, r, …, L, …)."""
    sums: list[Tensor | None] = [None] * factor
    for index, (sub, offset) in enumerate(places(factor)):
        part = _moved(held.narrow(place_axis, index, 1), space_axis, offset)
        known = sums[sub]
        sums[sub] = part if known is None else known + part
    return torch.cat([part for part in sums if part is not None], dim=place_axis)


def _moved(x: Tensor, axis: int, offset: int) -> Tensor:
    """x with what lies `offset` further along `axis`; zero where that is outside."""
    if offset == 0:
        return x
    # Padded first: exporters follow no axis that may be empty.
    return _padded(x, axis, max(-offset, 0), max(offset, 0)).narrow(axis, max(offset, 0), x.shape[axis])


def _padded(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """x with zeros around it along `axis`."""
    return pad(x, [0, 0] * (x.ndim - axis - 1) + [before, after])
