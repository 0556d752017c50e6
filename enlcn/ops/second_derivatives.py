"""Gradients that can be differentiated again, of functions whose own backward pass cannot."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def differentiable_gradients(
    naive: Callable[[], Tensor], inputs: Sequence[Tensor], needed: Sequence[bool], gradient: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of a function by its naive version, with the graph behind them.

    Args:
        naive: the function of `inputs`, plainly written.
        inputs: what it depends on.
        needed: for which of them a gradient is wanted.
        gradient: of the function's value.

    Returns:
        One for each input, None where it is not wanted.
    """
    with torch.enable_grad():
        wanted = [each for each, is_needed in zip(inputs, needed, strict=False) if is_needed]
        found = iter(torch.autograd.grad(naive(), wanted, gradient, create_graph=True))
    return tuple(next(found) if is_needed else None for _, is_needed in zip(inputs, needed, strict=False))
