"""The optimizers of a run: Adam for all weights, or Muon for the inner ones and Adam for the rest."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from enlcn.models.backbone import SRNetwork
from enlcn.train.config import OptimizerConfig
from enlcn.train.muon import Muon


class Optimizers:
    """One or two optimizers that step together, by one learning rate, or not at all.

    Args:
        network: whose weights they change.
        config: which, and their numbers.
        learning_rate: a scalar on the network's device, read at every step.
        found_bad: another; 1 where a step is to have no effect.
    """

    def __init__(self, network: SRNetwork, config: OptimizerConfig, learning_rate: Tensor, found_bad: Tensor):
        self._learning_rate = learning_rate
        inner = inner_weights(network) if config.kind == "muon" else []
        taken = {id(weight) for weight in inner}
        self._named: dict[str, Optimizer] = {
            "adam": torch.optim.Adam(
                [weight for weight in network.parameters() if id(weight) not in taken],
                lr=learning_rate,
                betas=(config.beta1, config.beta2),
                eps=config.eps,
                fused=True,
                capturable=learning_rate.is_cuda,
            )
        }
        if inner:
            self._named["muon"] = Muon(inner, learning_rate, config.momentum, config.inner_factor)
        for optimizer in self._named.values():
            optimizer.found_inf = found_bad  # type: ignore[attr-defined]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for optimizer in self._named.values():
            optimizer.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Change all weights."""
        for optimizer in self._named.values():
            optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes."""
        return {name: optimizer.state_dict() for name, optimizer in self._named.items()}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        for name, optimizer in self._named.items():
            optimizer.load_state_dict(states[name])
            for group in optimizer.param_groups:
                group["lr"] = self._learning_rate  # the tensor that captured graphs read
                if "capturable" in group:  # by the device it goes on on, not by the one it began on
                    group["capturable"] = self._learning_rate.is_cuda


def inner_weights(network: SRNetwork) -> list[nn.Parameter]:
    """The matrices between features and features: all but biases, the first convolution and the one to RGB."""
    last = network.upsampler[network.upsampler.to_rgb]
    outer = {id(network.head.weight), id(last.weight)}
    return [weight for weight in network.parameters() if weight.ndim > 1 and id(weight) not in outer]
