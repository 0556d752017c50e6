"""Named networks. Every row of the paper's tables is a change to one base config."""

from dataclasses import replace

from enlcn.config import SCALES, AttentionConfig, ModelConfig
from enlcn.errors import UserError

ENLCN = ModelConfig()
EDSR = replace(ENLCN, attention=AttentionConfig(kind="none"), attention_after=())

# EDSR-baseline's body with a direct upsampler: the paper's idea at 1.3 M parameters, for CPUs.
SMALL = ModelConfig(channels=64, num_blocks=16, attention_after=(0, 8, 16), res_scale=1.0, upsampler="direct")
# As deep as 1.5 M parameters allow: what `enlcn upscale` takes unless told otherwise.
LIGHT = replace(SMALL, num_blocks=19, attention_after=(0, 9, 19))
# As many parameters in gated blocks: twice as wide, for more time on a CPU.
GATED = replace(SMALL, block="gated", channels=128, num_blocks=21, attention_after=(0, 10, 21))
# A fifth of the light network's computing time on a CPU, for videos, folders and previews.
FAST = replace(
    SMALL, channels=32, num_blocks=12, attention_after=(0, 6, 12), attention=replace(SMALL.attention, num_features=32)
)
TINY = replace(SMALL, channels=16, num_blocks=4, attention_after=(0, 2, 4))


def with_attention(base: ModelConfig, **changes: object) -> ModelConfig:
    """`base` with some fields of its attention changed."""
    return replace(base, attention=replace(base.attention, **changes))  # type: ignore[arg-type]


NETWORKS: dict[str, ModelConfig] = {
    "enlcn": ENLCN,
    "edsr": EDSR,
    "enlan": with_attention(ENLCN, amplification=1.0),  # ENLA: neither k nor contrast
    "nlan": with_attention(ENLCN, kind="nla", amplification=None),
    "nlsn": with_attention(ENLCN, kind="nlsa", amplification=None),
    "ccn": with_attention(ENLCN, kind="cca", amplification=None),
    "enlcn-small": SMALL,
    "edsr-small": replace(SMALL, attention=EDSR.attention, attention_after=()),
    "enlcn-light": LIGHT,
    "edsr-light": replace(LIGHT, attention=EDSR.attention, attention_after=()),
    "enlcn-gated": GATED,
    "edsr-gated": replace(GATED, attention=EDSR.attention, attention_after=()),
    "enlcn-fast": FAST,
    "enlcn-tiny": TINY,
}

# The paper's ablations (x4), row by row. Contrastive learning is a loss, not a network: it is no column here.
ABLATIONS: dict[str, dict[str, ModelConfig]] = {
    "components": {"base": EDSR, "ENLA": NETWORKS["enlan"], "ENLA + k": ENLCN},
    "amplification": {f"k = {k}": with_attention(ENLCN, amplification=float(k)) for k in range(1, 9)},
    "efficiency": {
        "baseline": EDSR,
        "NLA": NETWORKS["nlan"],
        "NLSA-r4": NETWORKS["nlsn"],
        **{f"ENLCA-m{2**e}": with_attention(ENLCN, num_features=2**e) for e in range(8, 0, -1)},
    },
    "criss-cross": {
        "baseline": EDSR,
        "Non-Local": NETWORKS["nlan"],
        "Criss-Cross": NETWORKS["ccn"],
        "NLSA": NETWORKS["nlsn"],
        "ENLCA": ENLCN,
    },
}


def network(name: str) -> ModelConfig:
    """The config named `NETWORK` (x4) or `NETWORK-xS`, as in "enlcn-small-x2"."""
    base, _, scale = name.rpartition("-x")
    if not base:
        base, scale = name, "4"
    if base not in NETWORKS or scale not in map(str, SCALES):
        scales = ", ".join(f"-x{s}" for s in SCALES)
        raise UserError(f"unknown network '{name}'; choose from {', '.join(NETWORKS)}, followed by {scales}")
    return replace(NETWORKS[base], scale=int(scale))
