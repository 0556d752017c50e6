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
from enlcn.ops.criss_cross import criss_cross_attention
from enlcn.ops.features import log_features
from enlcn.ops.hashed_attention import draw_rotations, hashed_attention
from enlcn.ops.projection import draw_projection
from enlcn.ops.softmax_attention import correlation_row


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
                    row = WEIGHINGS[name](q, k, size, index, attention)
                    yield AttentionMap(module, name, row.view(size))
        if module == max(chosen):
            return  # nothing deeper is wanted
        x = stage(x)


def own_weighing(attention: Attention) -> str:
    """What an attention approximates or computes: exact softmax but for hashed and criss-cross ones."""
    if isinstance(attention, NLSA):
        return "hashed"
    return "criss-cross" if isinstance(attention, CCA) else "exact"


def _exact(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    return correlation_row(q, k, index)[0]


def _features(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    if isinstance(attention, ENLCA):
        projection, eps = attention.projection, attention.feature_eps
    else:
        generator = torch.Generator().manual_seed(0)
        projection, eps = draw_projection(128, q.shape[-1], generator=generator).to(q.device), 0.0
    log_q = log_features(q[0, index : index + 1], projection, eps)  # (1, M)
    log_k = log_features(k[0], projection, eps)  # (N, M)
    return torch.softmax((log_q + log_k).logsumexp(-1), dim=0)


def _hashed(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    if isinstance(attention, NLSA):
        return _row_of(lambda v: attention.weigh(q, k, v, size), q, index)
    rotations = draw_rotations(q.shape[-1], 4, generator=torch.Generator().manual_seed(0)).to(q.device)
    return _row_of(lambda v: hashed_attention(q, k, v, rotations), q, index)


def _criss_cross(q: Tensor, k: Tensor, size: torch.Size, index: int, attention: Attention) -> Tensor:
    grid_q, grid_k = (t.mT.unflatten(2, size) for t in (q, k))
    return _row_of(lambda v: criss_cross_attention(grid_q, grid_k, v.mT.unflatten(2, size)).flatten(2).mT, q, index)


def _row_of(attend: Callable[[Tensor], Tensor], q: Tensor, index: int) -> Tensor:
    """The weights of any attention: it is linear in v, so they are the slopes of its output."""
    with torch.enable_grad():
        v = q.new_zeros(1, q.shape[1], 1, requires_grad=True)
        return torch.autograd.grad(attend(v)[0, index, 0], v)[0].flatten()


WEIGHINGS: dict[str, Callable[[Tensor, Tensor, torch.Size, int, Attention], Tensor]] = {
    "exact": _exact,
    "features": _features,
    "hashed": _hashed,
    "criss-cross": _criss_cross,
}
