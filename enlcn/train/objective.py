"""Network and loss in one module, so that DistributedDataParallel and autocast wrap both.

Axes: B batch, N positions, R rows of L_cl, s scale.
"""

import torch
from torch import Tensor, nn

from enlcn.data.counter_random import uniform
from enlcn.losses import total_loss
from enlcn.models.backbone import SRNetwork
from enlcn.ops.contrastive import Contrast
from enlcn.train.config import LossConfig


class Objective(nn.Module):
    """(lr, hr) -> (total loss, L_cl).

    Args:
        network: what is trained.
        loss: weights, ranks and rows.
        row_seed: of the choice of rows, the same on every process.
    """

    def __init__(self, network: SRNetwork, loss: LossConfig, row_seed: int):
        super().__init__()
        self.network = network
        self.loss = loss
        self.row_seed = row_seed
        self.contrast = Contrast(
            relevant_fraction=loss.relevant_fraction,
            irrelevant_start=loss.irrelevant_start,
            margin=loss.margin,
            hinge=loss.hinge,
            released_ranks=loss.released_ranks,
        )
        self.run_network = network.forward_with_pairs

    def forward(self, lr: Tensor, hr: Tensor, step: Tensor, with_contrast: bool) -> tuple[Tensor, Tensor]:
        """lr (B, 3, H, W), hr (B, 3, sH, sW), the step's number (scalar) -> two scalars."""
        sr, pairs = self.run_network(lr)
        if not with_contrast:
            pairs = []
        elif self.loss.num_rows is not None and self.loss.num_rows < lr.shape[-2] * lr.shape[-1]:
            rows = [
                choose_rows(self.row_seed, step, index, k.shape[1], self.loss.num_rows)
                for index, (_, k) in enumerate(pairs)
            ]
            pairs = [(q.index_select(1, row), k) for row, (q, k) in zip(rows, pairs, strict=True)]
        return total_loss(
            sr.float(),
            hr,
            pairs,
            pixel=self.loss.pixel,
            contrastive_weight=self.loss.contrastive_weight,
            contrast=self.contrast,
        )

    def compile_network(self) -> None:
        """Have torch.compile run the network from the next step on."""
        self.run_network = torch.compile(self.network.forward_with_pairs, dynamic=False)

    def run_eagerly(self) -> None:
        """Undo `compile_network`."""
        self.run_network = self.network.forward_with_pairs


def choose_rows(seed: int, step: Tensor, module: int, num_positions: int, num_rows: int) -> Tensor:
    """Rows (R,) of N, uniform without replacement: those of the highest among N random numbers."""
    stream = (step << 6) + module  # up to 64 attentions
    counter = torch.arange(num_positions, device=step.device) + (stream << 24)
    return uniform(seed, counter).topk(num_rows, sorted=False).indices
