"""The attentions ENLCA is compared with, in its frame: exact, hashed, criss-cross.

Axes: B batch, C channels, N = H W positions, D query/key width.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from enlcn.models.attention import NORM_EPS, Attention, Pair, flatten, require
from enlcn.ops.criss_cross import criss_cross_attention
from enlcn.ops.hashed_attention import MAX_HASHES, draw_rotations, hashed_attention
from enlcn.ops.softmax_attention import softmax_attention


class NLA(Attention):
    """Exact non-local attention (Eq. 1). Quadratic in N; queries go in chunks to bound memory."""

    chunk_size = 4096

    def weigh(self, q: Tensor, k: Tensor, v: Tensor, size: torch.Size) -> Tensor:
        """Softmax attention over all positions."""
        return softmax_attention(q, k, v, chunk_size=self.chunk_size)


class NLSA(Attention):
    """Non-local sparse attention: one 3x3 embedding, hashed into buckets; keys are its directions.

    Args:
        channels, reduction, amplification, res_scale: see `Attention`; amplification scales queries too.
        num_rounds: hashing rounds.
        bucket_size: positions per bucket.
        generator: source of the hashing directions.
    """

    rotations: Tensor

    def __init__(
        self,
        channels: int = 256,
        *,
        reduction: int = 4,
        amplification: float | None = None,
        res_scale: float = 0.1,
        num_rounds: int = 4,
        bucket_size: int = 144,
        generator: torch.Generator | None = None,
    ):
        super().__init__(channels, reduction=reduction, amplification=amplification, res_scale=res_scale)
        require(num_rounds >= 1, f"num_rounds is {num_rounds}; it must be at least 1")
        require(bucket_size >= 1, f"bucket_size is {bucket_size}; it must be at least 1")
        del self.query, self.key
        self.match = nn.Conv2d(channels, self.query_width, kernel_size=3, padding=1)
        self.num_rounds = num_rounds
        self.bucket_size = bucket_size
        self.register_buffer("rotations", torch.empty(num_rounds, self.query_width, MAX_HASHES // 2))
        self.redraw(generator)

    @torch.no_grad()
    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw the hashing directions anew, in place."""
        if self.rotations.is_meta:
            return
        self.rotations.copy_(draw_rotations(self.query_width, self.num_rounds, generator=generator))

    def queries_keys(self, x: Tensor) -> Pair:
        """Queries as projected (or amplified); keys of length 1 (or sqrt(k)), as in NLSN. (B, N, D) each."""
        match = self.match(x)
        q = self.amplify(match)
        k = normalize(q, dim=-1, eps=NORM_EPS) if self.amplification is None else q
        return q, k

    def weigh(self, q: Tensor, k: Tensor, v: Tensor, size: torch.Size) -> Tensor:
        """Softmax attention within buckets, rounds weighted by what they found."""
        return hashed_attention(q, k, v, self.rotations, bucket_size=self.bucket_size)


class CCA(Attention):
    """Criss-cross attention: each pixel sees its row and its column."""

    def weigh(self, q: Tensor, k: Tensor, v: Tensor, size: torch.Size) -> Tensor:
        """Softmax attention over the pixel's row and column."""
        q, k, v = (t.mT.unflatten(2, size) for t in (q, k, v))  # (B, ., H, W)
        return flatten(criss_cross_attention(q, k, v))
