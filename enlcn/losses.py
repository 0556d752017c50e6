"""What training minimises: L_rec + contrastive_weight * L_cl, on what the network returns."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import l1_loss, mse_loss

from enlcn.ops.contrastive import Contrast, contrastive_loss

PIXEL_LOSSES = {"l1": l1_loss, "l2": mse_loss}


def total_loss(
    sr: Tensor,
    hr: Tensor,
    pairs: Sequence[tuple[Tensor, Tensor]] = (),
    *,
    pixel: str = "l1",
    contrastive_weight: float = 1e-3,
    contrast: Contrast = Contrast(),  # noqa: B008
    num_rows: int | None = None,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """L_rec + lambda_cl L_cl, with L_cl averaged over the attention modules.

    Args:
        sr, hr: (B, 3, sH, sW).
        pairs: each attention's queries and keys, (B, N, D); none leaves L_cl out.
        pixel: L_rec: "l1" (the paper's) or "l2".
        contrastive_weight: lambda_cl.
        contrast: ranks, margin and hinge of L_cl.
        num_rows: queries per module that L_cl looks at; None for all.
        generator: source of that choice.

    Returns:
        The total and L_cl alone, scalars.
    """
    reconstruction = PIXEL_LOSSES[pixel](sr, hr)
    if not pairs or contrastive_weight == 0:
        return reconstruction, reconstruction.new_zeros(())
    losses = [contrastive_loss(q, k, contrast, num_rows=num_rows, generator=generator) for q, k in pairs]
    contrastive = torch.stack(losses).mean()
    return reconstruction + contrastive_weight * contrastive, contrastive
