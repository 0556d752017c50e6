"""A network as a fixed graph: made ready for the exporters, described, and checked against what it came from.

Axes: B batch, H rows, W columns, s scale.
"""

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from enlcn.errors import UserError
from enlcn.file_metadata import file_metadata
from enlcn.models.attention import ENLCA
from enlcn.models.backbone import SRNetwork
from enlcn.models.blocks import Upsampler
from enlcn.version import __version__

# The largest difference to PyTorch in fp32 that an export may show, on pixels in [0, 1]. An 8-bit step is 4e-3.
TOLERANCES = {"fp32": 1e-3, "fp16": 2e-2}
# Odd and even, one and several, wide and high: what a graph that took its example's size for granted would miss.
CHECKED_SIZES = ((1, 3, 48, 64), (2, 3, 33, 20), (1, 3, 7, 91))
# For float16 convolutions of PyTorch on a CPU, which are many times slower than float32.
SMALL_SIZES = ((1, 3, 8, 10), (2, 3, 7, 4), (1, 3, 3, 17))
# No size that a dimension could be mistaken for.
EXAMPLE_SIZE = (2, 3, 22, 26)
AXES = {0: "batch", 2: "height", 3: "width"}

Forward = Callable[[Tensor], Tensor]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    """What an export made.

    Attributes:
        difference: the largest to PyTorch in fp32 over the sizes checked.
        metadata: what the file says of itself.
    """

    difference: float
    metadata: dict[str, str]


def traceable(network: SRNetwork, precision: str = "fp32") -> nn.Module:
    """A copy that the exporters can follow, from lr (B, 3, H, W) float32 to sr (B, 3, sH, sW) float32."""
    if precision not in TOLERANCES:
        raise UserError(f"--precision is '{precision}'; choose from {', '.join(TOLERANCES)}")
    if network.config.num_attentions and network.config.attention.kind == "nlsa":
        raise UserError("a network with hashed attention (nlsa) has no fixed graph: its buckets depend on the image")
    network = copy.deepcopy(network).cpu().float().eval().requires_grad_(False)
    for attention in network.attentions:
        if isinstance(attention, ENLCA):
            attention.backend = "naive"  # chunks of a number that depends on the image cannot be written down
    return network if precision == "fp32" else HalfNetwork(network)


class HalfNetwork(nn.Module):
    """A network in float16 but for what needs more: means, random matrices, and the convolution to RGB."""

    def __init__(self, network: SRNetwork):
        super().__init__()
        matrices = {name: buffer.clone() for name, buffer in network.named_buffers()}
        self.network = network.half()
        for name, buffer in matrices.items():
            owner, _, attribute = name.rpartition(".")
            setattr(network.get_submodule(owner), attribute, buffer)
        assert isinstance(network.upsampler, Upsampler)
        network.upsampler[network.upsampler.to_rgb].float()

    def forward(self, lr: Tensor) -> Tensor:
        """lr (B, 3, H, W) -> sr (B, 3, sH, sW), float32 both."""
        network = self.network
        shallow = network.head((lr - network.rgb_mean).half())
        x = shallow
        for stage in network.stages:
            x = stage(x)
        return network.reconstruct(network.body_end(x) + shallow)


def describe(network: SRNetwork, *, name: str, precision: str) -> dict[str, str]:
    """What an exported file says of itself, as text under keys."""
    digest = weights_digest(network)
    return {
        **file_metadata(network.config),
        "name": name,
        "scale": str(network.config.scale),
        "precision": precision,
        "weights_sha256": digest,
        "licence": licence_note(name, digest),
        "enlcn_version": __version__,
        "input": "lr: float32 (batch, 3, height, width), RGB in [0, 1]",
        "output": f"sr: float32 (batch, 3, {network.config.scale} height, {network.config.scale} width), not clamped",
    }


def licence_note(name: str, digest: str) -> str:
    """One line on who may use the weights called `name`, whose `weights_digest` is `digest`."""
    from enlcn.zoo import known

    if not is_shipped(name, digest):
        return "code: Apache-2.0; weights: as their author says"
    said = known()[name].licence or f"see docs/models/{name}.md, as the training photographs have licences of their own"
    return f"code: Apache-2.0; weights: {said}"


def is_shipped(name: str, digest: str) -> bool:
    """Whether the shipped model `name` has these weights: a run or a file of others may go by the same name."""
    from enlcn.checkpoint import load
    from enlcn.zoo import here, known
    from enlcn.zoo.locate import obtain

    return name in here() and weights_digest(load(obtain(known()[name]))) == digest


def weights_digest(network: SRNetwork) -> str:
    """SHA-256 over names and values (as float32) of all parameters and stored buffers, whatever file they came from."""
    digest = hashlib.sha256()
    for key, value in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(str(tuple(value.shape)).encode())
        values = value.detach().cpu()
        digest.update((values.float() if values.is_floating_point() else values).contiguous().numpy().tobytes())
    return digest.hexdigest()


def verify(
    network: SRNetwork,
    forward: Forward,
    precision: str,
    step: Callable[[], None] = lambda: None,
    *,
    sizes: tuple[tuple[int, int, int, int], ...] = CHECKED_SIZES,
) -> float:
    """The largest difference between an exported network and the one it came from, over three sizes.

    Args:
        network: the original, which computes in float32.
        forward: the export, lr -> sr.
        precision: which tolerance holds.
        step: called after each size.
        sizes: (B, 3, H, W) of each.

    Raises:
        UserError: it is too far away.
    """
    reference = copy.deepcopy(network).cpu().float().eval()
    generator = torch.Generator().manual_seed(0)
    largest = 0.0
    for size in sizes:
        lr = torch.rand(size, generator=generator)
        with torch.inference_mode():
            expected = reference(lr)
        result = forward(lr)
        if result.shape != expected.shape:
            raise UserError(f"the export gives {tuple(result.shape)} for {size}, PyTorch {tuple(expected.shape)}")
        difference = (result.float() - expected).abs().max().item()
        if not difference <= TOLERANCES[precision]:  # NaN fails the comparison
            raise UserError(
                f"the export differs from PyTorch by {difference:.2g} at {size[3]}x{size[2]}, more than "
                f"{TOLERANCES[precision]:g} in {precision}; nothing was written"
                + ("; try --precision fp32" if precision != "fp32" else "")
            )
        largest = max(largest, difference)
        step()
    return largest
