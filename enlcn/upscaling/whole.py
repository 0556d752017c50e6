"""A network over a whole image at once; only the upsampler, whose output is s² times larger, goes by strips."""

import torch
from torch import Tensor

from enlcn.models.backbone import SRNetwork
from enlcn.models.fast import FastNetwork
from enlcn.upscaling.steps import WholeSteps, following_modules, named_modules
from enlcn.upscaling.streaming import UPSAMPLER_HALO, EmitSR, Progress
from enlcn.upscaling.tiling import Tile

# LR pixels per strip: enough for the convolutions to run at full speed.
STRIP_PIXELS = 1 << 14


@torch.inference_mode()
def upscale_whole(
    network: SRNetwork | FastNetwork, lr: Tensor, emit_sr: EmitSR, *, progress: Progress | None = None
) -> None:
    """Upscale images held in memory.

    Args:
        network: any.
        lr: (B, 3, H, W) in [0, 1], on the network's device.
        emit_sr: takes the SR pixels of each strip, (B, 3, s h, s W); strips come from top to bottom.
        progress: called with (steps done, steps in all), first with (0, steps in all); steps are modules and strips,
            with `FastNetwork`, whose modules are folded, strips alone.
    """
    height, width = lr.shape[-2:]
    strip = max(1, STRIP_PIXELS // width)
    num_strips = -(-height // strip)
    modules = len(list(named_modules(network))) if isinstance(network, SRNetwork) else 0
    steps = WholeSteps(modules, num_strips, progress or (lambda done, total: None))
    steps.begin()
    if progress is not None and isinstance(network, SRNetwork):
        with following_modules(network, steps.module_done):
            features = network.features(lr)
    else:
        features = network.features(lr)
    for index in range(num_strips):
        tile = Tile(index * strip, min((index + 1) * strip, height), 0, width, height, width)
        grown = tile.grown(UPSAMPLER_HALO[network.config.upsampler])
        sr = network.reconstruct(features[..., grown.top : grown.bottom, :])
        emit_sr(tile, tile.crop(sr, grown, network.config.scale))
        steps.strips_done(index + 1)
