"""LR of a batch of HR crops as they are drawn: MATLAB's resize as two matrix products, rounded after each.

A photograph has s² LR images, one for each place where the grid of its LR pixels may begin. Those made beforehand are
one of them; a network that sees them again and again learns them by heart.

Axes: B batch, p side of an LR crop, m LR pixels around it that its border depends on, s scale.
"""

import torch
from torch import Tensor

from enlcn.data.resize import taps

MARGIN = 2  # m: the stretched kernel reaches 2 s - (s - 1) / 2 HR pixels beyond a crop


def shrinking_matrix(crop: int, scale: int, device: torch.device) -> Tensor:
    """What makes p LR pixels of the s (p + 2 m) HR pixels around them, float64 (p, s (p + 2 m))."""
    length = crop + 2 * MARGIN
    passes = taps(length * scale, length, 1 / scale, "bicubic", True, "clamp")
    matrix = torch.zeros(length, length * scale, dtype=torch.float64)
    matrix.scatter_add_(1, torch.from_numpy(passes.index.copy()), torch.from_numpy(passes.weight.copy()))
    return matrix[MARGIN : MARGIN + crop].to(device)


def shrink(hr: Tensor, matrix: Tensor) -> Tensor:
    """(B, 3, s (p + 2 m), s (p + 2 m)) -> (B, 3, p, p), both uint8: rows first, as MATLAB does."""
    rows = _rounded(matrix @ hr.to(matrix.dtype))
    return _rounded(rows @ matrix.T).to(torch.uint8)


def without_margin(hr: Tensor, scale: int) -> Tensor:
    """The HR pixels of the crop itself. (B, 3, s (p + 2 m), s (p + 2 m)) -> (B, 3, s p, s p), a view."""
    border = scale * MARGIN
    return hr[..., border:-border, border:-border]


def _rounded(values: Tensor) -> Tensor:
    """To whole grey levels, halves up: there are no negative ones after clamping."""
    return (values + 0.5).floor().clamp(0, 255)
