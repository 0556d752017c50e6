"""Photographs shrunk a little before crops are taken of them: each sample by a factor of its own, as imresize shrinks.

What is seen from further away is something new to learn from. The results are HR themselves, so that nothing depends on
their last digit, and products may be rounded as the device likes.

Axes: B batch, S side of a result, L side of the window it is made of.
"""

import math

import torch
from torch import Tensor

_REACH = 2  # of the cubic kernel, in pixels of the result


def span(side: int, factor: Tensor) -> Tensor:
    """How many pixels of a photograph a result of `side` pixels is made of, one for each factor. (B,) -> (B,) int64."""
    return ((side + 2 * _REACH) / factor).ceil().long()


def longest_span(side: int, smallest_factor: float) -> int:
    """L: the span of the smallest factor."""
    return math.ceil((side + 2 * _REACH) / smallest_factor)


def rescaling_matrices(factor: Tensor, side: int, length: int) -> Tensor:
    """What makes S pixels of L, for each factor. (B,) -> (B, S, L) float32; L is at least each factor's span.

    The first result is _REACH / factor pixels from the window's edge; factor 1 only cuts that off.
    """
    inverse = 1 / factor[:, None]
    centre = (torch.arange(side, device=factor.device) + 0.5 + _REACH) * inverse - 0.5  # (B, S)
    distance = factor[:, None, None] * (centre[:, :, None] - torch.arange(length, device=factor.device))
    weight = _cubic(distance)
    return (weight / weight.sum(2, keepdim=True)).float()


def rescale(windows: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """(B, 3, L, L) by matrices (B, S, L) for rows and for columns -> (B, 3, S, S), both uint8."""
    values = rows.unsqueeze(1) @ windows.float() @ columns.mT.unsqueeze(1)
    return values.round().clamp(0, 255).to(torch.uint8)


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel, as `resize` has it."""
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x <= 1, near, torch.where(x <= 2, far, 0.0))
