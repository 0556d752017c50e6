"""Weights in the layout of the authors' code (and of EDSR and NLSN, its lineage): which key is which of ours.

A layout is told apart by its keys alone; hyper-parameters are inferred from their shapes. What shapes cannot tell
(amplification, residual scaling, phi's eps) is taken from the released code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from enlcn import recipes
from enlcn.config import AttentionConfig, ModelConfig
from enlcn.errors import UserError

FEATURE_EPS = 1e-4
_MEAN_KEYS = ("sub_mean.weight", "sub_mean.bias", "add_mean.weight", "add_mean.bias")
# An attention's prefix in the authors' body -> its kind.
_KINDS = {"conv_match1.0.weight": "enlca", "conv_match.0.weight": "nlsa"}
_ATTENTION_NAMES = {
    "enlca": {"conv_match1.0": "query", "conv_match2.0": "key", "conv_assembly.0": "value"},
    "nlsa": {"conv_match.0": "match", "conv_assembly.0": "value"},
}


def is_authors_layout(keys: Mapping[str, object]) -> bool:
    """Whether these are the keys of an EDSR-like network of the authors' lineage."""
    return "head.0.weight" in keys and any(key.startswith("body.0.") for key in keys)


def infer_config(state: Mapping[str, Tensor]) -> ModelConfig:
    """The network that a state dict in the authors' layout belongs to."""
    body = _read_body(state)
    channels = _shape(state, "head.0.weight")[0]
    attention = recipes.EDSR.attention
    if body.first_attention is not None:
        attention = _infer_attention(state, body, channels)
    # EDSR-baseline (64 channels) was trained without residual scaling, everything wider with 0.1.
    res_scale = 1.0 if channels <= 64 and attention.kind == "none" else 0.1
    return ModelConfig(
        scale=_infer_scale(state, channels),
        channels=channels,
        num_blocks=body.num_blocks,
        attention_after=tuple(body.attention_after),
        attention=attention,
        res_scale=res_scale,
        rgb_mean=_infer_mean(state),
    )


def to_ours(state: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Rename the authors' keys to ours."""
    return {ours: state[theirs] for theirs, ours in key_pairs(config) if theirs in state}


def from_ours(state: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Rename our keys to the authors', and add their two mean shifts."""
    if config.block != "residual" or config.inner_channels != config.channels:
        raise UserError("the authors' layout has no place for gated blocks, nor for blocks of another width inside")
    if config.upsampler != "stepwise" or (config.num_attentions and config.attention.kind not in _ATTENTION_NAMES):
        raise UserError("the authors' layout has no place for this network's attention or upsampler")
    identity = torch.eye(3).view(3, 3, 1, 1)
    mean = torch.tensor(config.rgb_mean)
    shifts = dict(zip(_MEAN_KEYS, (identity, -mean, identity.clone(), mean), strict=True))
    return shifts | {theirs: state[ours] for theirs, ours in key_pairs(config) if ours in state}


def expected_keys(config: ModelConfig, ours: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Every key of the authors' layout with its shape, given our network's state dict (on any device)."""
    shifts = {key: torch.Size((3, 3, 1, 1) if key.endswith("weight") else (3,)) for key in _MEAN_KEYS}
    return shifts | {theirs: ours[name].shape for theirs, name in key_pairs(config)}


def key_pairs(config: ModelConfig) -> list[tuple[str, str]]:
    """(the authors' key, our key) for every tensor but the mean shifts, in the authors' order."""
    pairs = _with_suffixes("head.0", "head")
    index = 0
    for stage, (has_attention, num_blocks) in enumerate(config.stages):
        if has_attention:
            for theirs, ours in _ATTENTION_NAMES[config.attention.kind].items():
                pairs += _with_suffixes(f"body.{index}.{theirs}", f"stages.{stage}.attention.{ours}")
            if config.attention.kind == "enlca":
                pairs.append((f"body.{index}.attn_fn.projection_matrix", f"stages.{stage}.attention.projection"))
            index += 1
        for block in range(num_blocks):
            for conv, ours in ((0, "conv1"), (2, "conv2")):
                pairs += _with_suffixes(f"body.{index}.body.{conv}", f"stages.{stage}.blocks.{block}.{ours}")
            index += 1
    pairs += _with_suffixes(f"body.{index}", "body_end")
    num_steps = 2 if config.scale == 4 else 1
    for step in range(num_steps):
        pairs += _with_suffixes(f"tail.0.{2 * step}", f"upsampler.{2 * step}")
    return pairs + _with_suffixes("tail.1", f"upsampler.{2 * num_steps}")


def _with_suffixes(theirs: str, ours: str) -> list[tuple[str, str]]:
    return [(f"{theirs}.{suffix}", f"{ours}.{suffix}") for suffix in ("weight", "bias")]


@dataclass
class _Body:
    num_blocks: int
    attention_after: list[int]
    first_attention: int | None
    kind: str | None


def _read_body(state: Mapping[str, Tensor]) -> _Body:
    body = _Body(num_blocks=0, attention_after=[], first_attention=None, kind=None)
    index = 0
    while f"body.{index}.weight" not in state:  # the closing convolution
        kind = next((kind for key, kind in _KINDS.items() if f"body.{index}.{key}" in state), None)
        if kind is not None:
            body.attention_after.append(body.num_blocks)
            if body.first_attention is None:
                body.first_attention, body.kind = index, kind
        elif f"body.{index}.body.0.weight" in state:
            body.num_blocks += 1
        else:
            raise UserError(f"missing key 'body.{index}.weight': the body has no closing convolution")
        index += 1
    return body


def _infer_attention(state: Mapping[str, Tensor], body: _Body, channels: int) -> AttentionConfig:
    prefix = f"body.{body.first_attention}"
    if body.kind == "nlsa":
        width = _shape(state, f"{prefix}.conv_match.0.weight")[0]
        return replace(recipes.NETWORKS["nlsn"].attention, reduction=channels // width)
    width = _shape(state, f"{prefix}.conv_match1.0.weight")[0]
    num_features = _shape(state, f"{prefix}.attn_fn.projection_matrix")[0]
    return AttentionConfig(reduction=channels // width, num_features=num_features, feature_eps=FEATURE_EPS)


def _infer_scale(state: Mapping[str, Tensor], channels: int) -> int:
    if "tail.0.2.weight" in state:
        return 4
    expansion = _shape(state, "tail.0.0.weight")[0] / channels
    if expansion not in (4, 9):
        raise UserError(f"key 'tail.0.0.weight' has {expansion:g} times {channels} filters, expected 4 or 9 times")
    return {4: 2, 9: 3}[int(expansion)]


def _infer_mean(state: Mapping[str, Tensor]) -> tuple[float, float, float]:
    for key in _MEAN_KEYS:
        _shape(state, key)
    mean = state["add_mean.bias"].float()
    identity = torch.eye(3).view(3, 3, 1, 1)
    for key, expected in zip(_MEAN_KEYS, (identity, -mean, identity, mean), strict=True):
        if not torch.equal(state[key].float(), expected):
            raise UserError(f"key '{key}' is not the plain mean shift that this network makes")
    if mean.abs().max() > 1:
        raise UserError("key 'add_mean.bias' is above 1: weights for the range 0..255 are not supported")
    red, green, blue = mean.tolist()
    return red, green, blue


def _shape(state: Mapping[str, Tensor], key: str) -> torch.Size:
    if key not in state:
        raise UserError(f"missing key '{key}'")
    return state[key].shape
