"""What a network is: frozen dataclasses, each field with the paper's symbol. No torch here."""

from dataclasses import dataclass, field

from enlcn.errors import require, require_choice

ATTENTION_KINDS = ("none", "enlca", "nla", "nlsa", "cca")
PROJECTION_KINDS = ("orthogonal", "iid")
UPSAMPLERS = ("stepwise", "direct")
BLOCKS = ("residual", "gated")
SCALES = (2, 3, 4)


@dataclass(frozen=True)
class AttentionConfig:
    """One attention module.

    Attributes:
        kind: none, enlca, nla (exact non-local), nlsa (hashed, sparse) or cca (criss-cross).
        reduction: channels over query/key width (c_in / c).
        amplification: k; queries and keys get length sqrt(k). None leaves them as projected (Eq. 1).
        num_features: m, the random features of enlca.
        projection: how the rows of F are drawn, orthogonal or iid.
        feature_eps: added to exp(...) in phi; 1e-4 in the authors' code, 0 in the paper.
        res_scale: the module gives x + res_scale * Y.
        num_rounds: hashing rounds of nlsa.
        bucket_size: positions per bucket of nlsa.
    """

    kind: str = "enlca"
    reduction: int = 4
    amplification: float | None = 6.0
    num_features: int = 128
    projection: str = "orthogonal"
    feature_eps: float = 0.0
    res_scale: float = 0.1
    num_rounds: int = 4
    bucket_size: int = 144

    def __post_init__(self) -> None:
        require_choice("attention.kind", self.kind, ATTENTION_KINDS)
        require_choice("attention.projection", self.projection, PROJECTION_KINDS)
        for name in ("reduction", "num_features", "num_rounds", "bucket_size"):
            require(getattr(self, name) >= 1, f"attention.{name} must be at least 1")
        require(self.amplification is None or self.amplification > 0, "attention.amplification must be positive")
        require(self.feature_eps >= 0, "attention.feature_eps must not be negative")


@dataclass(frozen=True)
class ModelConfig:
    """A super-resolution network: EDSR's residual body with attention modules between its blocks.

    Attributes:
        scale: s, the magnification.
        channels: c_in, the width of the body.
        num_blocks: residual blocks.
        block: "residual" (EDSR: two 3x3 around a ReLU) or "gated" (light networks: two 1x1, and between them one half
            of the numbers, spread by a large depthwise kernel, multiplies the other).
        block_width: channels inside a block, where they meet the ReLU or are multiplied; None for as many as elsewhere.
        block_kernel: side of a gated block's kernel.
        attention_after: an attention stands after so many blocks; 0 is before the first.
        attention: what stands there.
        res_scale: residual blocks give x + res_scale * f(x).
        upsampler: "stepwise" (EDSR: a 3x3 and a pixel shuffle per doubling, then a 3x3 to RGB) or "direct"
            (one 3x3 and one pixel shuffle; light networks).
        rgb_mean: subtracted before and added after.
    """

    scale: int = 4
    channels: int = 256
    num_blocks: int = 32
    block: str = "residual"
    block_width: int | None = None
    block_kernel: int = 7
    attention_after: tuple[int, ...] = (0, 8, 16, 24, 32)
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    res_scale: float = 0.1
    upsampler: str = "stepwise"
    rgb_mean: tuple[float, float, float] = (0.4488, 0.4371, 0.4040)

    def __post_init__(self) -> None:
        require_choice("scale", self.scale, SCALES)
        require_choice("upsampler", self.upsampler, UPSAMPLERS)
        require(self.channels >= 1 and self.num_blocks >= 0, "channels and num_blocks must be positive")
        require_choice("block", self.block, BLOCKS)
        require(self.block_width is None or self.block_width >= 1, "block_width must be positive")
        require(self.block_kernel >= 1 and self.block_kernel % 2 == 1, "block_kernel must be odd")
        require(
            list(self.attention_after) == sorted(set(self.attention_after))
            and all(0 <= place <= self.num_blocks for place in self.attention_after),
            f"attention_after {self.attention_after} must ascend within 0..{self.num_blocks} (num_blocks)",
        )
        if self.num_attentions:
            require(
                self.channels % self.attention.reduction == 0,
                f"channels ({self.channels}) must be a multiple of the reduction ({self.attention.reduction})",
            )
        require(len(self.rgb_mean) == 3, "rgb_mean must have three values")

    @property
    def num_attentions(self) -> int:
        """How many attention modules there are."""
        return 0 if self.attention.kind == "none" else len(self.attention_after)

    @property
    def stages(self) -> tuple[tuple[bool, int], ...]:
        """(whether it begins with an attention, how many blocks follow) of each stage of the body, in order."""
        places = self.attention_after if self.num_attentions else ()
        starts = sorted({0, *places})
        ends = [*starts[1:], self.num_blocks]
        return tuple((start in places, end - start) for start, end in zip(starts, ends, strict=True))

    @property
    def inner_channels(self) -> int:
        """Channels inside a block."""
        return self.block_width or self.channels

    @property
    def block_halo(self) -> int:
        """How far a block sees."""
        return {"residual": 2, "gated": self.block_kernel // 2}[self.block]

    @property
    def query_width(self) -> int:
        """D, the width of queries and keys."""
        return self.channels // self.attention.reduction


def describe_body(config: ModelConfig) -> str:
    """The residual blocks in words."""
    inside = f", {config.inner_channels} inside" if config.inner_channels != config.channels else ""
    kind = "residual" if config.block == "residual" else f"gated {config.block_kernel}x{config.block_kernel}"
    return f"{config.num_blocks} {kind} blocks of {config.channels} channels{inside}"
