"""The config of a state dict in our layout, where no config comes with it: by keys and shapes.

What shapes cannot tell (residual scaling, amplification, phi's eps, the mean) is taken from the named network of the
same shape, or from the nearest kin.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from enlcn import recipes
from enlcn.checkpoint import CONFIG_TENSOR
from enlcn.config import AttentionConfig, ModelConfig
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.plain_config import from_plain, to_plain

State = Mapping[str, Tensor]


def is_our_layout(state: Mapping[str, object]) -> bool:
    """Whether these are the keys of an SRNetwork."""
    needed = ("head.weight", "head.bias", "body_end.weight", "upsampler.0.weight")
    return CONFIG_TENSOR in state or (
        all(key in state for key in needed) and any(key.startswith("stages.0.") for key in state)
    )


def config_tensor(config: ModelConfig) -> Tensor:
    """A config as bytes: programs that hand on tensors alone hand it on too."""
    return torch.tensor(list(json.dumps(to_plain(config)).encode()), dtype=torch.uint8)


def infer_config(state: State) -> ModelConfig:
    """The network that a state dict belongs to."""
    if CONFIG_TENSOR in state:
        return from_plain(ModelConfig, json.loads(bytes(state[CONFIG_TENSOR].to(torch.uint8).tolist())))
    channels = state["head.weight"].shape[0]
    stages = _stages(state)
    places, num_blocks = [], 0
    for has_attention, count in stages:
        if has_attention:
            places.append(num_blocks)
        num_blocks += count
    upsampler, scale = _upsampler(state, channels)
    shape = replace(
        recipes.EDSR,
        scale=scale,
        channels=channels,
        num_blocks=num_blocks,
        **_block(state, channels),
        attention_after=tuple(places),
        upsampler=upsampler,
    )
    config = _with_the_unseen(shape, _attention(state, channels) if places else recipes.EDSR.attention)
    _check(state, config)
    return config


def _with_the_unseen(shape: ModelConfig, attention: AttentionConfig) -> ModelConfig:
    """`shape` and `attention` completed by what tensors do not show."""
    seen = ("channels", "num_blocks", "block", "block_width", "block_kernel", "attention_after", "upsampler")
    kin = recipes.SMALL if shape.upsampler == "direct" else recipes.ENLCN
    for named in recipes.NETWORKS.values():
        alike = all(getattr(named, field) == getattr(shape, field) for field in seen)
        same_attention = named.attention.kind == attention.kind and (
            attention.kind == "none"
            or (named.attention.reduction, named.attention.num_features)
            == (attention.reduction, attention.num_features)
        )
        if alike and same_attention:
            kin = named
            break
    completed = replace(
        kin.attention, kind=attention.kind, reduction=attention.reduction, num_features=attention.num_features
    )
    return replace(shape, res_scale=kin.res_scale, rgb_mean=kin.rgb_mean, attention=completed)


def _stages(state: State) -> list[tuple[bool, int]]:
    """(whether it begins with an attention, how many blocks follow) of each stage."""
    found: dict[int, tuple[bool, set[int]]] = {}
    for key in state:
        parts = key.split(".")
        if parts[0] != "stages":
            continue
        has_attention, blocks = found.setdefault(int(parts[1]), (False, set()))
        if parts[2] == "blocks":
            blocks.add(int(parts[3]))
        found[int(parts[1])] = (has_attention or parts[2] == "attention", blocks)
    return [(has_attention, len(blocks)) for _, (has_attention, blocks) in sorted(found.items())]


def _attention(state: State, channels: int) -> AttentionConfig:
    prefix = next(key.removesuffix("value.weight") for key in state if key.endswith("attention.value.weight"))
    if f"{prefix}projection" in state:
        num_features, width = state[f"{prefix}projection"].shape
        return AttentionConfig("enlca", reduction=channels // width, num_features=num_features)
    if f"{prefix}match.weight" in state:
        width = state[f"{prefix}match.weight"].shape[0]
        return replace(recipes.NETWORKS["nlsn"].attention, reduction=channels // width)
    raise UserError(
        "exact and criss-cross attention look alike by their tensors; `enlcn export MODEL FILE.safetensors` writes "
        "one that says which it is"
    )


def _block(state: State, channels: int) -> dict[str, Any]:
    """What the blocks are: their kind, channels inside where they differ from those outside, a gated one's kernel."""
    spread = next((value for key, value in state.items() if key.endswith(".spread.weight")), None)
    if spread is not None:
        kind = {"block": "gated", "block_kernel": spread.shape[-1]}
        width = spread.shape[0]
    else:
        kind = {"block": "residual"}
        width = next((value.shape[0] for key, value in state.items() if key.endswith(".conv1.weight")), channels)
    return kind | {"block_width": None if width == channels else width}


def _upsampler(state: State, channels: int) -> tuple[str, int]:
    filters = state["upsampler.0.weight"].shape[0]
    if "upsampler.2.weight" not in state:
        scale = {12: 2, 27: 3, 48: 4}.get(filters)
        if scale is None:
            raise UserError(f"key 'upsampler.0.weight' has {filters} filters, expected 12, 27 or 48")
        return "direct", scale
    return "stepwise", 4 if "upsampler.4.weight" in state else {4: 2, 9: 3}.get(filters // channels, 2)


def _check(state: State, config: ModelConfig) -> None:
    with torch.device("meta"):
        expected = SRNetwork(config).state_dict()
    for key, value in expected.items():
        if key not in state and key.endswith(".rotations"):
            continue
        if key not in state or state[key].shape != value.shape:
            has = f"has shape {tuple(state[key].shape)}" if key in state else "is missing"
            raise UserError(f"key '{key}' {has}, expected {tuple(value.shape)}: not a network of this version")
    for key in state:
        if key not in expected:
            raise UserError(f"unexpected key '{key}': not a network of this version")
