"""The network that a 16-bit step computes with: its weights are rounded all at once, their gradients widened likewise.

Autocast rounds every weight by itself and widens every gradient by itself: over a hundred small kernels a step. Here
the computing network has 16-bit weights of its own, made of the trained ones before each step by a few large kernels;
everything else it shares with the trained network. A residual block's factor goes into its last weights on the way:
neither its output nor the gradient that comes back has to be multiplied then, only the weights'.
"""

import copy

import torch
from torch import Tensor, nn

from enlcn.models.backbone import Block, SRNetwork


class RoundedNetwork:
    """A network that computes what `trained` does under autocast.

    `network` is to be run and differentiated: after `round`, and before `collect_gradients`.

    Args:
        trained: its weights are changed by an optimizer, in place.
        dtype: what autocast rounds to.
    """

    def __init__(self, trained: SRNetwork, dtype: torch.dtype = torch.bfloat16):
        shared = {id(tensor): tensor for tensor in (*trained.parameters(), *trained.buffers())}
        self.network: SRNetwork = copy.deepcopy(trained, shared)
        self._alike: dict[tuple[float, torch.dtype | None], _Counterparts] = {}
        for block in self.network.modules():
            if isinstance(block, Block):
                first, last = block.dense
                self._replace(first, "weight", dtype)
                self._replace(last, "weight", dtype, block.res_scale)
                if block.res_scale != 1:
                    self._replace(last, "bias", None, block.res_scale)  # autocast rounds all biases
                    block.res_scale = 1.0
        for convolution in (self.network.body_end, *self.network.upsampler.autocast_steps()):
            self._replace(convolution, "weight", dtype)

    def round(self) -> None:
        """Make the network's weights of the trained ones, and forget their gradients."""
        for counterparts in self._alike.values():
            counterparts.round()

    def collect_gradients(self) -> None:
        """Give the trained weights the gradients that the network's have."""
        for counterparts in self._alike.values():
            counterparts.collect_gradients()

    def _replace(self, module: nn.Module, name: str, dtype: torch.dtype | None, factor: float = 1.0) -> None:
        alike = self._alike.setdefault((factor, dtype), _Counterparts(factor, dtype))
        setattr(module, name, alike.stand_in(getattr(module, name)))


class _Counterparts:
    """Trained weights, and those of one type (None: their own) that stand for them, multiplied by one factor."""

    def __init__(self, factor: float, dtype: torch.dtype | None):
        self._factor, self._dtype = factor, dtype
        self._trained: list[Tensor] = []
        self._standing: list[Tensor] = []
        self._gradients: list[Tensor] = []

    def stand_in(self, trained: nn.Parameter) -> nn.Parameter:
        """A weight to compute with instead of `trained`."""
        standing = nn.Parameter(torch.zeros_like(trained, dtype=self._dtype))
        self._trained.append(trained)
        self._standing.append(standing)
        self._gradients.append(torch.zeros_like(trained))
        return standing

    @torch.no_grad()
    def round(self) -> None:
        values = self._trained if self._factor == 1 else torch._foreach_mul(self._trained, self._factor)
        torch._foreach_copy_(self._standing, values)
        for weight in self._standing:
            weight.grad = None

    @torch.no_grad()
    def collect_gradients(self) -> None:
        torch._foreach_copy_(self._gradients, [weight.grad for weight in self._standing])  # type: ignore[misc]
        if self._factor != 1:
            torch._foreach_mul_(self._gradients, self._factor)
        for weight, gradient in zip(self._trained, self._gradients, strict=True):
            weight.grad = gradient
