"""Where float32 is needed whatever the network runs in: exponents, sums over many positions, losses."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

_AUTOCASTING = ("cpu", "cuda", "mps", "xpu")


def at_least_float32(x: Tensor) -> Tensor:
    """x itself in float32 or float64, widened to float32 otherwise."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A scope in which autocast does not narrow matrix products; nothing to do on devices that have none."""
    if device.type in _AUTOCASTING:
        return torch.autocast(device.type, enabled=False)
    return nullcontext()
