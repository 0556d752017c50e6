"""Larger networks that begin as smaller ones: the same function, with room to learn more.

The given network takes the first channels. The others begin with fresh weights, but those by which they would act on
the first are zero. Blocks and attentions it does not have add nothing to its channels. So the larger network computes
what the given one did, and every weight that is new learns from its first or second step on. With another number of
random features F is drawn anew, and the attention estimates what it did before with that. Only the further queries and
keys of ENLCA's rivals stay 0: what counts there is their product.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from enlcn.config import ModelConfig
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork

_TAIL = "upsampler."
_MULTIPLIED = {"blocks": ("conv2", "project"), "attention": ("value",)}  # what a residual's factor multiplies
_NORMALISED = ("query", "key", "match")


def grown(config: ModelConfig, state: Mapping[str, Tensor], network: SRNetwork) -> tuple[dict[str, Tensor], list[str]]:
    """Weights for `network` that make it the network of `config` and `state`.

    Args:
        config, state: of the given network: no wider, no deeper; another scale's upsampler is not taken.
        network: gives shapes and fresh weights.

    Returns:
        All weights, and the names of those that nothing of the given network went into.
    """
    target = {name: value.clone() for name, value in network.state_dict().items()}
    places = {"head.": "head.", "body_end.": "body_end."} | _places_for(config, network.config)
    if config.scale == network.config.scale:
        state = _with_tail_of(network.config.upsampler, config, state)
        places[_TAIL] = _TAIL
    left_out, placed = [], set()
    for name, value in target.items():
        place = next((place for place in places if name.startswith(place)), None)
        if place is None:
            left_out.append(name)
            _silence(name, value, config.channels)
        else:
            source = places[place] + name.removeprefix(place)
            if source not in state:
                raise UserError(f"it has no '{source}', so it is another kind of network")
            placed.add(source)
            if name.endswith("projection") and len(state[source]) != len(value):
                left_out.append(name)  # another m: F stays as it was drawn for this network
                continue
            _put(name, value, state[source] * _factor(name, config, network.config))
    for source in state:
        if source not in placed and not source.startswith(_TAIL):
            raise UserError(f"it has '{source}', for which the network has no place")
    return target, left_out


def _places(config: ModelConfig) -> Iterator[str]:
    """Attentions and blocks in the order they are passed."""
    for stage, (has_attention, num_blocks) in enumerate(config.stages):
        if has_attention:
            yield f"stages.{stage}.attention."
        yield from (f"stages.{stage}.blocks.{block}." for block in range(num_blocks))


def _places_for(given: ModelConfig, wanted: ModelConfig) -> dict[str, str]:
    """Where each attention and block of the given network goes: the first free place of its kind, order kept."""
    _refuse_deeper(given, wanted)
    _refuse_other_blocks(given, wanted)
    free = _places(wanted)
    taken = {}
    for place in _places(given):
        kind = _kind(place)
        home = next((candidate for candidate in free if _kind(candidate) == kind), None)
        if home is None:
            raise UserError(f"it has '{place.rstrip('.')}', for which the network has no place")
        taken[home] = place
    return taken


def _refuse_deeper(given: ModelConfig, wanted: ModelConfig) -> None:
    for kind, words in {"blocks": "is deeper: it has {} residual blocks", "attention": "has {} attentions"}.items():
        have, room = (sum(_kind(place) == kind for place in _places(config)) for config in (given, wanted))
        if have > room:
            raise UserError(f"it {words.format(have)}, the network has {room}")


def _refuse_other_blocks(given: ModelConfig, wanted: ModelConfig) -> None:
    if given.block != wanted.block:
        raise UserError(f"its blocks are {given.block}, the network's {wanted.block}")
    sizes = ("channels", "inner_channels", "block_kernel")
    if wanted.block == "gated" and any(getattr(given, name) != getattr(wanted, name) for name in sizes):
        raise UserError("gated blocks are not widened: they divide by the mean over all channels")


def _kind(name: str) -> str | None:
    """blocks or attention; None for what lies in no stage."""
    return name.split(".")[2] if name.startswith("stages.") else None


def _module(name: str) -> str:
    """conv2 of stages.0.blocks.1.conv2.weight."""
    return name.split(".")[-2]


def _factor(name: str, given: ModelConfig, wanted: ModelConfig) -> float:
    """What makes up for another factor of the residual."""
    kind = _kind(name)
    if kind is None or _module(name) not in _MULTIPLIED[kind]:
        return 1.0
    parts = (given, wanted) if kind == "blocks" else (given.attention, wanted.attention)
    had, has = (part.res_scale for part in parts)
    if has == 0 != had:
        raise UserError(f"its {kind} count by a res_scale of {had}, the network's not at all")
    return had / has if has else 1.0


def _silence(name: str, value: Tensor, channels: int) -> None:
    """Let a block or attention that is new add nothing to the first channels."""
    kind = _kind(name)
    if kind is not None and _module(name) in _MULTIPLIED[kind]:
        value[:channels] = 0


def _put(name: str, value: Tensor, given: Tensor) -> None:
    """Write `given` into the first rows and columns of `value`; rows that it fills hear no other columns."""
    if given.ndim != value.ndim or any(have > room for have, room in zip(given.shape, value.shape, strict=True)):
        raise UserError(f"'{name}' has shape {tuple(given.shape)}, expected {tuple(value.shape)} or less")
    rows = given.shape[0]
    if name.endswith("projection"):
        value[:, : given.shape[1]] = given
        return
    if _kind(name) == "attention" and _module(name) in _NORMALISED:
        value[rows:] = 0  # a further number would shorten the others
    value[:rows] = 0
    value[tuple(map(slice, given.shape))] = given


def _with_tail_of(kind: str, config: ModelConfig, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The state with its direct upsampler written as a stepwise one where that is wanted."""
    if kind == config.upsampler:
        return state
    if config.upsampler != "direct":
        raise UserError(f"its upsampler is {config.upsampler}, the network's {kind}")
    tail = _stepwise(state[f"{_TAIL}0.weight"], state[f"{_TAIL}0.bias"], config.scale)
    return {name: value for name, value in state.items() if not name.startswith(_TAIL)} | tail


def _stepwise(weight: Tensor, bias: Tensor, scale: int) -> dict[str, Tensor]:
    """A direct upsampler in steps: the first computes all sub-pixels, the others only bring them to their places."""
    later = {2: 1, 3: 1, 4: 2}[scale]  # the factor of the steps after the first
    first = scale // later
    # Sub-pixels as (rgb, row of the first step, of the later ones, column likewise); the later ones are channels yet.
    order = torch.arange(3 * scale**2).view(3, first, later, first, later).permute(0, 2, 4, 1, 3).flatten()
    steps = [(weight[order], bias[order])]
    steps += [_centre(3 * later**2)] if later > 1 else []
    steps += [_centre(3)]
    return {
        f"{_TAIL}{2 * index}.{part}": value
        for index, step in enumerate(steps)
        for part, value in zip(("weight", "bias"), step, strict=True)
    }


def _centre(channels: int) -> tuple[Tensor, Tensor]:
    """A 3x3 convolution that changes nothing."""
    weight = torch.empty(channels, channels, 3, 3)
    return nn.init.dirac_(weight), torch.zeros(channels)
