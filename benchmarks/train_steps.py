"""The training steps that are timed against each other, the authors', written plainly, and ours, and on what."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch
from gpu_contenders import PlainENLCA
from torch import Tensor
from torch.nn.functional import l1_loss

from enlcn import recipes
from enlcn.data.patches import PatchSource
from enlcn.data.shards import PackedImages
from enlcn.models.attention import ENLCA
from enlcn.models.backbone import SRNetwork
from enlcn.models.gated_block import GatedBlock
from enlcn.ops.contrastive import RELEASED, contrastive_loss_naive
from enlcn.train.config import DataConfig, EngineConfig, LossConfig, TrainConfig
from enlcn.train.distributed import Ranks
from enlcn.train.recipes import MODERN, MODERN_GATED, MODERN_SMALL, PAPER
from enlcn.train.step import TrainStep, set_up_backends

CONTRASTIVE_WEIGHT = 1e-3
CAPTURED = EngineConfig(compile="on", cuda_graph="on")


@dataclass(frozen=True)
class Workload:
    """A network and a batch; the numbers of steps that are timed and that come before."""

    label: str
    config: TrainConfig
    steps: int
    warm_up: int = 8
    repeats: int = 3


@dataclass(frozen=True)
class Variant:
    """One way of running a workload's step."""

    label: str
    engine: EngineConfig
    num_rows: int | None = None
    backend: str = "auto"
    gate: str = "auto"
    constant_batch: bool = False


class ConstantBatch:
    """One batch, drawn once: what a step takes when data cost nothing."""

    def __init__(self, source: PatchSource, device: torch.device):
        source.prepare(0)
        self._batch = source.draw(torch.zeros((), dtype=torch.int64, device=device))

    def prepare(self, step: int) -> None:
        """Nothing to do."""

    def draw(self, step: Tensor) -> tuple[Tensor, Tensor]:
        """The batch."""
        return self._batch


def workloads(tiny: bool) -> dict[str, Workload]:
    paper = replace(PAPER, loss=replace(PAPER.loss, contrastive_start=0))
    modern = replace(MODERN, loss=replace(MODERN.loss, contrastive_start=0))
    small = replace(MODERN_SMALL, model=recipes.network("enlcn-small-x4"))
    gated = replace(MODERN_GATED, model=recipes.network("enlcn-gated-x4"))
    if tiny:
        model = replace(recipes.TINY, channels=8, num_blocks=2, attention_after=(0, 2))
        paper = replace(paper, model=model, data=DataConfig(crop=9, batch_size=2))
        modern = replace(paper, data=DataConfig(crop=12, batch_size=2))
        small = replace(modern, loss=LossConfig(contrastive_start=0, num_rows=16))
        gated = replace(small, model=replace(model, block="gated"), optimizer=MODERN_GATED.optimizer)
    steps, warm_up, repeats = (2, 1, 1) if tiny else (15, 8, 3)
    return {
        "paper": Workload("paper size, batch 16 of 28x28", paper, steps, warm_up, repeats),
        "modern": Workload("paper size, batch 32 of 48x48", modern, steps, warm_up, repeats),
        "small": Workload("enlcn-small, batch 64 of 48x48", small, 4 * steps, warm_up, repeats),
        "gated": Workload("enlcn-gated, batch 64 of 48x48", gated, 2 * steps, warm_up, repeats),
    }


def noise_images(scale: int, count: int, side: int) -> PackedImages:
    pixels = count * side * side
    lengths = torch.full((count,), side)
    return PackedImages(
        scale=scale,
        lr=torch.randint(0, 256, (pixels, 3), dtype=torch.uint8),
        hr=torch.randint(0, 256, (pixels * scale**2, 3), dtype=torch.uint8),
        heights=lengths,
        widths=lengths,
        offsets=torch.arange(count) * side * side,
        names=tuple(map(str, range(count))),
        skipped=(),
        key="noise",
    )


def authors_step(work: Workload, source: PatchSource, device: torch.device) -> Callable[[], None]:
    """Their training step, plainly: eager, tf32, their module as it is, T sorted in full, one batch always there."""
    set_up_backends(EngineConfig(precision="tf32"), device)
    torch.manual_seed(0)
    network = SRNetwork(work.config.model).to(device).train()
    network.upsampler.folds = False
    for stage in network.stages:
        if isinstance(stage.attention, ENLCA):
            stage.attention = PlainENLCA(stage.attention)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, betas=(0.9, 0.99))
    lr, hr = (t.contiguous() for t in ConstantBatch(source, device).draw(torch.tensor(0)))

    def step() -> None:
        sr, pairs = network.forward_with_pairs(lr)
        ranked = [contrastive_loss_naive(q, k, RELEASED) for q, k in pairs]
        loss = l1_loss(sr, hr) + CONTRASTIVE_WEIGHT * torch.stack(ranked).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def our_step(work: Workload, variant: Variant, source: PatchSource, device: torch.device) -> Callable[[], None]:
    config = replace(work.config, engine=variant.engine, loss=replace(work.config.loss, num_rows=variant.num_rows))
    set_up_backends(config.engine, device)
    network = shared_network(work, variant.backend, variant.gate, device)
    patches = ConstantBatch(source, device) if variant.constant_batch else source
    state = TrainStep(network, config, patches, Ranks(0, 1, device))
    return lambda: state.advance(1e-4, with_contrast=True)


@cache
def shared_network(work: Workload, backend: str, gate: str, device: torch.device) -> SRNetwork:
    """One network for all variants that compile it alike: compiling takes longer than measuring."""
    torch.manual_seed(0)
    network = SRNetwork(work.config.model).to(device)
    for attention in network.attentions:
        attention.backend = backend  # type: ignore[assignment]
    for block in network.modules():
        if isinstance(block, GatedBlock):
            block.backend = gate
    return network
