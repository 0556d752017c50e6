"""The moving average of weights, free of the initial ones: a decaying mean of what training has visited."""

from collections.abc import Iterable

import torch
from torch import Tensor


class WeightAverage:
    """ema_t = sum_i (1 - d) d^(t-i) w_i / (1 - d^t).

    Starting the sum at zero and dividing by its weight, as Adam does for its moments, makes the average right from
    the first step on, and keeps the update a single fused pass.
    """

    def __init__(self, weights: Iterable[Tensor], decay: float):
        self.decay = decay
        self._weights = [weight.detach() for weight in weights]
        self.sums = [torch.zeros_like(weight) for weight in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights as they are now into the average."""
        torch._foreach_lerp_(self.sums, self._weights, 1 - self.decay)

    @torch.no_grad()
    def copy_to(self, weights: Iterable[Tensor], num_updates: int) -> None:
        """Write the average after `num_updates` into `weights`; before the first, nothing changes."""
        if num_updates == 0:
            return
        total = 1 - self.decay**num_updates
        for weight, running in zip(weights, self.sums, strict=True):
            weight.copy_(running / total)
