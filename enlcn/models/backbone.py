"""EDSR's residual body with attention slots: EDSR, ENLCN, NLSN and every ablation are configs of it.

Axes: B batch, C channels, H rows, W columns, s scale.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from enlcn import recipes
from enlcn.config import AttentionConfig, ModelConfig
from enlcn.errors import UserError
from enlcn.hub_methods import HubMethods
from enlcn.models.attention import ENLCA, Attention, Pair
from enlcn.models.blocks import UPSAMPLERS, ResidualBlock, conv3x3
from enlcn.models.gated_block import GatedBlock
from enlcn.models.rivals import CCA, NLA, NLSA

Block = ResidualBlock | GatedBlock


class Stage(nn.Module):
    """At most one attention, then residual blocks: all that lies between two moments of global exchange."""

    def __init__(self, attention: Attention | None, blocks: list[Block], *, halo: int):
        super().__init__()
        self.attention = attention
        self.blocks = nn.Sequential(*blocks)
        self.halo = halo  # how far the blocks see

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        return self.blocks(x if self.attention is None else self.attention(x))

    def forward_with_pair(self, x: Tensor) -> tuple[Tensor, Pair | None]:
        """`forward`, and the attention's queries and keys where there is one."""
        if self.attention is None:
            return self.blocks(x), None
        x, pair = self.attention.forward_with_pair(x)
        return self.blocks(x), pair


class SRNetwork(nn.Module, HubMethods):
    """A super-resolution network: head, stages, global skip, upsampler.

    >>> import torch
    >>> from enlcn import recipes
    >>> SRNetwork(recipes.TINY)(torch.rand(1, 3, 10, 12)).shape
    torch.Size([1, 3, 40, 48])
    """

    rgb_mean: Tensor

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.register_buffer("rgb_mean", torch.tensor(config.rgb_mean).view(1, 3, 1, 1), persistent=False)
        self.head = conv3x3(3, config.channels)
        self.stages = nn.ModuleList(_build_stages(config))
        self.body_end = conv3x3(config.channels, config.channels)
        self.upsampler = UPSAMPLERS[config.upsampler](config.channels, scale=config.scale)

    def forward(self, lr: Tensor) -> Tensor:
        """lr (B, 3, H, W) in [0, 1] -> sr (B, 3, sH, sW), not clamped."""
        return self.reconstruct(self.features(lr))

    def forward_with_pairs(self, lr: Tensor) -> tuple[Tensor, list[Pair]]:
        """`forward`, and each attention's queries and keys ((B, N, D) each) for the contrastive loss."""
        pairs: list[Pair] = []
        shallow = self.head(lr - self.rgb_mean)
        x = shallow
        for stage in self.stages:
            x, pair = stage.forward_with_pair(x)  # type: ignore[operator]
            if pair is not None:
                pairs.append(pair)
        return self.reconstruct(self.body_end(x) + shallow), pairs

    def features(self, lr: Tensor) -> Tensor:
        """All but the upsampler. (B, 3, H, W) -> (B, C, H, W). Keeps no queries or keys alive."""
        shallow = self.head(lr - self.rgb_mean)
        x = shallow
        for stage in self.stages:
            x = stage(x)
        return self.body_end(x) + shallow

    def reconstruct(self, features: Tensor) -> Tensor:
        """(B, C, H, W) -> sr (B, 3, sH, sW)."""
        return self.upsampler(features) + self.rgb_mean

    @property
    def attentions(self) -> list[Attention]:
        """The attention modules, in order."""
        return [stage.attention for stage in self.stages if stage.attention is not None]  # type: ignore[misc]

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw every attention's random matrix anew (the paper: once an epoch)."""
        for attention in self.attentions:
            attention.redraw(generator)


def _build_stages(config: ModelConfig) -> list[Stage]:
    return [
        Stage(
            build_attention(config.attention, config.channels) if has_attention else None,
            [BLOCKS[config.block](config) for _ in range(num_blocks)],
            halo=num_blocks * config.block_halo,
        )
        for has_attention, num_blocks in config.stages
    ]


BLOCKS: dict[str, Callable[[ModelConfig], Block]] = {
    "residual": lambda config: ResidualBlock(config.channels, res_scale=config.res_scale, width=config.block_width),
    "gated": lambda config: GatedBlock(
        config.channels, res_scale=config.res_scale, width=config.block_width, kernel=config.block_kernel
    ),
}


def build_attention(config: AttentionConfig, channels: int) -> Attention:
    """The module that `config` describes."""
    frame = {
        "reduction": config.reduction,
        "amplification": config.amplification,
        "res_scale": config.res_scale,
    }
    return ATTENTIONS[config.kind](config, channels, frame)


ATTENTIONS: dict[str, Callable[[AttentionConfig, int, dict[str, Any]], Attention]] = {
    "enlca": lambda config, channels, frame: ENLCA(
        channels,
        num_features=config.num_features,
        projection=config.projection,
        feature_eps=config.feature_eps,
        **frame,
    ),
    "nla": lambda _, channels, frame: NLA(channels, **frame),
    "nlsa": lambda config, channels, frame: NLSA(
        channels, num_rounds=config.num_rounds, bucket_size=config.bucket_size, **frame
    ),
    "cca": lambda _, channels, frame: CCA(channels, **frame),
}


def ENLCN(scale: int = 4, **changes: Any) -> SRNetwork:
    """The paper's network (43.58 M parameters at x4), freshly initialised; `changes` are ModelConfig fields."""
    return SRNetwork(_changed(recipes.ENLCN, scale=scale, **changes))


def EDSR(scale: int = 4, **changes: Any) -> SRNetwork:
    """EDSR at full size, freshly initialised; `changes` are ModelConfig fields."""
    return SRNetwork(_changed(recipes.EDSR, scale=scale, **changes))


def _changed(base: ModelConfig, **changes: Any) -> ModelConfig:
    known = [field.name for field in fields(ModelConfig)]
    for name in changes:
        if name not in known:
            raise UserError(f"unknown setting '{name}'; choose from {', '.join(known)}")
    return replace(base, **changes)
