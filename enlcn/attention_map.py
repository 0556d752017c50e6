"""Where a network looks: the weights one pixel gives to all others, as numbers (the paper's Figure 1).

Axes: N = H W positions, D query/key width.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from enlcn.errors import UserError
from enlcn.models.attention import ENLCA, Attention
from enlcn.models.backbone import SRNetwork
from enlcn.models.rivals import CCA, NLSA
from enlcn.ops.attention_rows import (
    criss_cross_row,
    exact_row,
    features_row,
    fixed_rotations,
    hashed_order,
    hashed_row,
)
from enlcn.ops.projection import draw_projection

# Of maps that a network's own attention has no setting for: the paper's m, and NLSN's bucket.
NUM_FEATURES = 128
BUCKET_SIZE = 144


@dataclass(frozen=True)
class AttentionMap:
    """One attention's weights seen from one pixel.

    Attributes:
        module: which attention of the network, from 1.
        weighing: a name from WEIGHINGS.
        weights: (H, W), not negative, summing to 1.
    """

    module: int
    weighing: str
    weights: Tensor

    @property
    def focus(self) -> float:
        """The share of all weight that the heaviest 1 % of the pixels hold."""
        flat = self.weights.flatten()
        return flat.topk(max(1, flat.numel() // 100)).values.sum().item()


@torch.no_grad()
def attention_maps(
    network: SRNetwork,
    lr: Tensor,
    point: tuple[int, int],
    *,
    modules: Sequence[int] | None = None,
    weighings: Sequence[str] | None = None,
) -> Iterator[AttentionMap]:
    """The maps of a network's attentions at one pixel, as each stage is reached.

    Args:
        network: any network with attention.
        lr: (1, 3, H, W) in [0, 1].
        point: (x, y) of the pixel.
        modules: which attentions, from 1; None for all.
        weighings: names from WEIGHINGS, computed on the same queries and keys; None for the module's own.

    Yields:
        Maps, modules in order.
    """
    height, width = lr.shape[-2:]
    x, y = point
    if not (0 <= x < width and 0 <= y < height):
        raise UserError(f"point {x},{y} lies outside the image of {width}x{height} pixels")
    chosen = _chosen_modules(network, modules)
    for name in weighings or ():
        if name not in WEIGHINGS:
            raise UserError(f"unknown weighing '{name}'; choose from {', '.join(WEIGHINGS)}")
    return _walk(network, lr, y * width + x, chosen, weighings)


def _chosen_modules(network: SRNetwork, modules: Sequence[int] | None) -> set[int]:
    count = len(network.attentions)
    if count == 0:
        raise UserError("this network has no attention to show")
    chosen = set(modules) if modules is not None else set(range(1, count + 1))
    for module in chosen:
        if not 1 <= module <= count:
            raise UserError(f"no attention {module}: this network has {count}, counted from 1")
    return chosen


@torch.no_grad()
def _walk(
    network: SRNetwork, lr: Tensor, index: int, chosen: set[int], weighings: Sequence[str] | None
) -> Iterator[AttentionMap]:
    size = lr.shape[-2:]
    module = 0
    x = network.head(lr - network.rgb_mean)
    for stage in network.stages:
        attention = stage.attention
        if isinstance(attention, Attention):
            module += 1
            if module in chosen:
                q, k = attention.queries_keys(x)
                for name in weighings or [own_weighing(attention)]:
                    row = WEIGHINGS[name](q[0], k[0], size, index, attention)
                    yield AttentionMap(module, name, row.view(size))
        if module == max(chosen):
            return  # nothing deeper is wanted
        x = stage(x)


def own_weighing(attention: Attention) -> str:
    """What an attention approximates or computes: exact softmax but for hashed and criss-cross ones."""
    if isinstance(attention, NLSA):
        return "hashed"
    return "criss-cross" if isinstance(attention, CCA) else "exact"


def hashing_of(attention: Attention, dim: int) -> tuple[Tensor, int]:
    """The hashing directions (R, D, H / 2) and positions a bucket of an attention; NLSN's where it has none."""
    if isinstance(attention, NLSA):
        return attention.rotations, attention.bucket_size
    return fixed_rotations(dim), BUCKET_SIZE


def _exact(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    return exact_row(q, k, index)


def _features(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    if isinstance(attention, ENLCA):
        return features_row(q, k, index, attention.projection, attention.feature_eps)
    projection = draw_projection(NUM_FEATURES, q.shape[1], generator=torch.Generator().manual_seed(0))
    return features_row(q, k, index, projection.to(q.device))


def _hashed(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    rotations, bucket_size = hashing_of(attention, q.shape[1])
    return hashed_row(q, k, index, hashed_order(k, rotations.to(k.device), bucket_size), bucket_size)


def _criss_cross(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    return criss_cross_row(q, k, index, (size[0], size[1]))


WEIGHINGS: dict[str, Callable[[Tensor, Tensor, torch.Size, int, Attention], Tensor]] = {
    "exact": _exact,
    "features": _features,
    "hashed": _hashed,
    "criss-cross": _criss_cross,
}
