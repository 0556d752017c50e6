"""A network over an image of any size, exactly, in bounded memory.

The network runs stage by stage, a stage being an attention and the blocks up to the next one, and each stage tile by
tile with just the halo its convolutions need. Attention is exact because its view of the whole image is the small
additive state (kv, z): each pass applies the state that the pass before has gathered, and gathers the next.
At the image's own edge a tile has no halo and the convolutions pad with zeros, as they do on the whole image.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from enlcn.errors import UserError
from enlcn.models.attention import ENLCA
from enlcn.models.backbone import SRNetwork, Stage
from enlcn.upscaling.global_state import GlobalState
from enlcn.upscaling.in_place import InPlace
from enlcn.upscaling.planes import Plane
from enlcn.upscaling.tiling import Tile, count_tiles, tiles

HEAD_HALO = 1
BODY_END_HALO = 1
# A 3x3 at each resolution, rounded up to whole LR pixels.
UPSAMPLER_HALO = {"direct": 1, "stepwise": 2}

ReadLR = Callable[[Tile], Tensor]
EmitSR = Callable[[Tile, Tensor], None]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class StreamPlan:
    """How an image is streamed.

    Attributes:
        height, width: LR size.
        side: tile side in LR pixels.
    """

    height: int
    width: int
    side: int

    def num_steps(self, network: SRNetwork) -> int:
        """Tiles over all passes: what a progress bar counts to."""
        passes = len(network.stages) + (first_stage(network).attention is not None)
        return passes * count_tiles(self.height, self.width, self.side)


def why_not_streamable(network: SRNetwork) -> str | None:
    """The reason why this network cannot be streamed exactly, or None if it can."""
    for attention in network.attentions:
        if not isinstance(attention, ENLCA):
            kind = network.config.attention.kind
            return f"its attention ({kind}) needs the whole image at once; only enlca can be streamed exactly"
    return None


def features_channels(network: SRNetwork) -> int:
    """Channels of the plane between stages, 0 where one pass is enough."""
    return network.config.channels if len(network.stages) > 1 else 0


def first_stage(network: SRNetwork) -> Stage:
    """The first stage, typed."""
    stage = network.stages[0]
    assert isinstance(stage, Stage)
    return stage


@torch.inference_mode()
def stream(
    network: SRNetwork,
    read_lr: ReadLR,
    emit_sr: EmitSR,
    plan: StreamPlan,
    features: Plane | None,
    *,
    progress: Progress | None = None,
) -> None:
    """Upscale an image that is read and written by tiles.

    Args:
        network: any whose attention is ENLCA or none.
        read_lr: gives the LR pixels of a tile, (1, 3, h, w) in [0, 1], on the network's device and type.
        emit_sr: takes the SR pixels of a tile, (1, 3, s h, s w); tiles come row by row.
        plan: image and tile size.
        features: a plane (H, W, C) for what lies between stages; needed where there is more than one.
        progress: called with (steps done, steps in all).
    """
    reason = why_not_streamable(network)
    if reason is not None:
        raise UserError(f"cannot stream this network: {reason}")
    pass_over = _Pass(network, read_lr, plan, progress)
    stages = [stage for stage in network.stages if isinstance(stage, Stage)]
    state = _new_state(stages[0])
    if state is not None:
        for tile in pass_over.tiles():
            state.add(pass_over.shallow(tile, halo=0))
    for index, stage in enumerate(stages[:-1]):
        assert features is not None, "more than one stage needs a plane between them"
        following = _new_state(stages[index + 1])
        halo = stage.halo
        plane = InPlace(features, halo)
        for tile in pass_over.tiles():
            x = pass_over.shallow(tile, halo) if index == 0 else pass_over.to_tensor(plane.read(tile))
            x = tile.crop(_run(stage, state, x), tile.grown(halo))
            if index == 0:
                features.write(tile.top, tile.left, _to_array(x))  # nothing old to keep
            else:
                plane.write(tile, _to_array(x))
            if following is not None:
                following.add(x)
        state = following
    _last_pass(pass_over, stages[-1], state, features, emit_sr)


def _last_pass(
    pass_over: "_Pass", stage: Stage, state: GlobalState | None, features: Plane | None, emit_sr: EmitSR
) -> None:
    network = pass_over.network
    scale = network.config.scale
    halo = stage.halo + BODY_END_HALO + UPSAMPLER_HALO[network.config.upsampler]
    for tile in pass_over.tiles():
        grown = tile.grown(halo)
        if len(network.stages) > 1:
            assert features is not None
            x = pass_over.to_tensor(features.read(grown.top, grown.bottom, grown.left, grown.right))
        else:
            x = pass_over.shallow(tile, halo)
        x = network.body_end(_run(stage, state, x)) + pass_over.shallow(tile, halo)
        emit_sr(tile, tile.crop(network.reconstruct(x), grown, scale))


def _run(stage: Stage, state: GlobalState | None, x: Tensor) -> Tensor:
    result: Tensor = stage.blocks(x if state is None else state.apply(x))
    return result


def _new_state(stage: Stage) -> GlobalState | None:
    return GlobalState(stage.attention) if isinstance(stage.attention, ENLCA) else None


def _to_array(x: Tensor) -> np.ndarray:
    narrow = x.half() if x.dtype == torch.bfloat16 else x  # numpy has no bfloat16
    array: np.ndarray = narrow[0].permute(1, 2, 0).cpu().numpy()
    return array


class _Pass:
    """One scan over the image: its tiles, its LR features, its progress."""

    def __init__(self, network: SRNetwork, read_lr: ReadLR, plan: StreamPlan, progress: Progress | None):
        self.network = network
        self._read_lr = read_lr
        self._plan = plan
        self._progress = progress
        self._done = 0
        self._total = plan.num_steps(network)
        self._like = next(network.parameters())

    def tiles(self) -> Iterator[Tile]:
        """The tiles, counted as they are finished."""
        for tile in tiles(self._plan.height, self._plan.width, self._plan.side):
            yield tile
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total)

    def shallow(self, tile: Tile, halo: int) -> Tensor:
        """The head's features of the tile grown by `halo`, (1, C, h, w): cheaper to compute again than to keep."""
        grown = tile.grown(halo)
        wider = tile.grown(halo + HEAD_HALO)
        return grown.crop(self.network.head(self._read_lr(wider) - self.network.rgb_mean), wider)

    def to_tensor(self, array: np.ndarray) -> Tensor:
        """(h, w, C) from a plane -> (1, C, h, w) channels_last, on the network's device and in its type."""
        x = torch.from_numpy(array).to(self._like.device, self._like.dtype)
        return x.permute(2, 0, 1).unsqueeze(0)
