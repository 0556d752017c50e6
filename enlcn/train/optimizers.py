"""The optimizers of a run: Adam for all weights, or Muon for the inner ones and Adam for the rest."""

from collections.abc import Iterable
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
        self._residual_factor = config.residual_factor
        inner = inner_weights(network) if config.kind == "muon" else []
        rest = _without(network.parameters(), inner)
        groups: list[dict[str, Any]] = [{"params": rest, "lr": learning_rate}]
        if config.residual_factor != 1:
            residual = _without(residual_weights(network), inner)
            groups[0]["params"] = _without(rest, residual)
            groups.append({"params": residual, "lr": learning_rate * config.residual_factor})
        self._named: dict[str, Optimizer] = {
            "adam": torch.optim.Adam(
                groups,
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
        for group in self._residual_groups():
            group["lr"].copy_(self._learning_rate * self._residual_factor)
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
        for group in self._residual_groups():
            group["lr"] = self._learning_rate * self._residual_factor

    def _residual_groups(self) -> list[dict[str, Any]]:
        """Adam's second group, where steps in residual branches have a length of their own."""
        return self._named["adam"].param_groups[1:]


def inner_weights(network: SRNetwork) -> list[nn.Parameter]:
    """The matrices between features and features: all but biases, the first convolution and the one to RGB."""
    last = network.upsampler[network.upsampler.to_rgb]
    outer = {id(network.head.weight), id(last.weight)}
    return [weight for weight in network.parameters() if weight.ndim > 1 and id(weight) not in outer]


def residual_weights(network: SRNetwork) -> list[nn.Parameter]:
    """Of blocks and of attentions' values: all that a residual's factor multiplies."""
    blocks = [weight for stage in network.stages for weight in stage.blocks.parameters()]  # type: ignore[union-attr]
    values = [weight for attention in network.attentions for weight in attention.value.parameters()]
    return blocks + values


def _without(weights: Iterable[nn.Parameter], others: list[nn.Parameter]) -> list[nn.Parameter]:
    """Those of `weights` that are not among the others."""
    taken = {id(weight) for weight in others}
    return [weight for weight in weights if id(weight) not in taken]
