"""What ENLCA is measured against: the module as published, exact attention, NLSA, a convolution.

Axes: B batch, C channels, N = H W positions, D query/key width, M random features.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, scaled_dot_product_attention

from enlcn.models.attention import ENLCA, NORM_EPS, Pair
from enlcn.models.rivals import NLSA

Contender = Callable[[Tensor], Tensor]


class PlainENLCA(nn.Module):
    """The module step by step as its paper and code have it: V in full, features in memory, an einsum per product."""

    projection: Tensor

    def __init__(self, module: ENLCA):
        super().__init__()
        assert module.amplification is not None
        self.query, self.key, self.value = module.query, module.key, module.value
        self.register_buffer("projection", module.projection)
        self.length = math.sqrt(module.amplification)
        self.res_scale = module.res_scale

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        return self.forward_with_pair(x)[0]

    def forward_with_pair(self, x: Tensor) -> tuple[Tensor, Pair]:
        """`forward`, and the queries and keys that L_cl ranks, (B, N, D) each."""
        batch, channels, height, width = x.shape
        q = normalize(self.query(x), dim=1, eps=NORM_EPS) * self.length
        k = normalize(self.key(x), dim=1, eps=NORM_EPS) * self.length
        q, k, v = (t.view(batch, 1, t.shape[1], -1).transpose(-2, -1) for t in (q, k, self.value(x)))  # (B, 1, N, .)
        phi_q, phi_k = self.features(q), self.features(k)
        kv = torch.einsum("...nm,...nc->...mc", phi_k, v)
        share = 1.0 / torch.einsum("...nm,...m->...n", phi_q, phi_k.sum(dim=-2))
        y = torch.einsum("...mc,...nm,...n->...nc", kv, phi_q, share)
        y = y.transpose(-2, -1).reshape(batch, channels, height, width)
        return y * self.res_scale + x, (q.squeeze(1), k.squeeze(1))

    def features(self, u: Tensor) -> Tensor:
        """(B, 1, N, D) -> (B, 1, N, M)."""
        exponent = torch.einsum("...nd,...md->...nm", u, self.projection.expand(*u.shape[:2], -1, -1))
        half_square = (u**2).sum(dim=-1, keepdim=True) / 2
        return self.projection.shape[0] ** -0.5 * (torch.exp(exponent - half_square) + 1e-4)


class SDPACore(nn.Module):
    """Exact attention's core alone, fused: q, k, v are there already. The projections are not counted against it."""

    def __init__(self, query_width: int):
        super().__init__()
        self.query_width = query_width

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, 1, N, C): x itself as values, its first channels as queries and keys."""
        v = x.flatten(2).mT.unsqueeze(1)
        q = v[..., : self.query_width].contiguous()
        return scaled_dot_product_attention(q, q, v, scale=1.0)


def build_module(channels: int, num_features: int, device: torch.device) -> ENLCA:
    """An ENLCA whose weights are drawn from one seed, in float32."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    return ENLCA(channels, num_features=num_features, generator=generator).to(device).requires_grad_(False)


def contenders(channels: int, num_features: int, dtype: torch.dtype, device: torch.device) -> dict[str, Contender]:
    """Every contender as a function of x, in `dtype`."""
    ours = build_module(channels, num_features, device)
    plain = PlainENLCA(build_module(channels, num_features, device)).to(dtype)
    nlsa = NLSA(channels).to(device).to(dtype).requires_grad_(False)
    convolution = nn.Conv2d(channels, channels, 3, padding=1, device=device, dtype=dtype).requires_grad_(False)
    convolution.weight.data = convolution.weight.data.contiguous(memory_format=torch.channels_last)
    return {
        "ours": in_dtype(ours, dtype),
        "plain": plain,
        "sdpa": SDPACore(ours.query_width),
        "nlsa": nlsa,
        "conv3x3": convolution,
    }


def in_dtype(module: ENLCA, dtype: torch.dtype) -> ENLCA:
    """The module in `dtype`, F kept in float32 as the engine keeps it."""
    projection = module.projection.clone()
    module = module.to(dtype)
    module.projection = projection
    return module


def draw(size: int, channels: int, dtype: torch.dtype, device: torch.device, *, channels_last: bool = True) -> Tensor:
    """A fresh x (1, C, size, size)."""
    x = torch.randn(1, channels, size, size, device=device, dtype=dtype)
    return x.contiguous(memory_format=torch.channels_last) if channels_last else x
