"""Starting from another network's weights: whatever `enlcn.load` takes, and training checkpoints."""

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from enlcn.checkpoint import load
from enlcn.config import AttentionConfig, ModelConfig
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.train.averaging import WeightAverage
from enlcn.train.balance import balance
from enlcn.train.growth import grown
from enlcn.train.snapshot import is_snapshot, load_snapshot

log = logging.getLogger(__name__)
_BLOCK = re.compile(r"stages\.(\d+)\.blocks\.(\d+)\.")


def warm_start(network: SRNetwork, path: Path) -> list[str]:
    """Load the weights of `path`; those of another scale without the upsampler, which stays as initialised.

    A network with more channels, blocks or attentions takes a smaller one's weights and begins where that one ended
    (`growth`). A network without attention takes the blocks of one with it, in order: the control of an ablation.
    Blocks are balanced in any case (`balance`).

    Args:
        network: loaded into.
        path: what `enlcn.load` takes, "untrained:NAME" too, or a training checkpoint.

    Returns:
        The names of attentions left out, and of weights that are new; ones without a place in `network` are an error.
    """
    config, state = _read(path)
    dropped: list[str] = []
    if config.num_attentions and not network.config.num_attentions:
        dropped = [f"stages.{index}.attention" for index, (has, _) in enumerate(config.stages) if has]
        config, state = without_attention(config, state)
    elif network.config.num_attentions and not config.num_attentions:
        raise UserError(f"{path}: cannot start from it: it has no attention, and the network has")
    try:
        weights, new = grown(config, state, network)
    except UserError as error:
        raise UserError(f"{path}: cannot start from it: {error}") from None
    network.load_state_dict(weights)
    balance(network)
    if changed := _settings_without_weights(config, network.config):
        log.warning("it does not begin by computing what %s does: %s", path, ", ".join(changed))
    return [*dropped, *sorted(new)]


def _settings_without_weights(given: ModelConfig, wanted: ModelConfig) -> list[str]:
    """Settings that no weights make up for and that differ, in words."""
    pairs = {"model.rgb_mean": (given.rgb_mean, wanted.rgb_mean)}
    if wanted.num_attentions:
        pairs |= {
            f"model.attention.{name}": (getattr(given.attention, name), getattr(wanted.attention, name))
            for name in ("kind", "amplification", "feature_eps")
        }
    return [f"{name} was {had}, is {has}" for name, (had, has) in pairs.items() if had != has]


def without_attention(config: ModelConfig, state: Mapping[str, Tensor]) -> tuple[ModelConfig, dict[str, Tensor]]:
    """A network with its attentions taken out: all blocks in one stage."""
    plain = replace(config, attention=AttentionConfig(kind="none"), attention_after=())
    firsts = list(accumulate((num_blocks for _, num_blocks in config.stages), initial=0))

    def moved(name: str) -> str:
        return _BLOCK.sub(lambda found: f"stages.0.blocks.{firsts[int(found[1])] + int(found[2])}.", name)

    return plain, {moved(name): value for name, value in state.items() if ".attention." not in name}


def averaged_state(path: Path) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Config and weights of a training checkpoint: the average where the run keeps one."""
    snapshot = load_snapshot(path)
    network = SRNetwork(snapshot.config.model)
    network.load_state_dict(snapshot.network)
    decay = snapshot.config.optimizer.ema_decay
    if snapshot.average is not None and decay is not None:
        average = WeightAverage(network.parameters(), decay)
        average.sums = snapshot.average
        average.copy_to(network.parameters(), snapshot.step)
    return snapshot.config.model, network.state_dict()


def network_of(path: Path) -> SRNetwork:
    """The network that a training checkpoint holds, ready to be saved on its own."""
    config, state = averaged_state(path)
    network = SRNetwork(config)
    network.load_state_dict(state)
    return network.eval()


def _read(path: Path) -> tuple[ModelConfig, Mapping[str, Tensor]]:
    if is_snapshot(path):
        return averaged_state(path)
    with torch.random.fork_rng(devices=[]):
        network = load(path)
    return network.config, network.state_dict()
