"""Criss-cross attention (CCNet, Huang et al. 2019): each pixel attends to its own row and column.

Axes: B batch, D query/key width, C value channels, H rows, W columns.
"""

import torch
from torch import Tensor

from enlcn.ops.precision import at_least_float32


def criss_cross_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention over the H + W - 1 pixels that share a row or a column with the query.

    Args:
        q, k: (B, D, H, W).
        v: (B, C, H, W).

    Returns:
        (B, C, H, W) in q's type.
    """
    height, width = q.shape[-2:]
    dtype = q.dtype
    q, k, v = at_least_float32(q), at_least_float32(k), at_least_float32(v)
    along_column = torch.einsum("bdhw,bdgw->bhwg", q, k)  # (B, H, W, H)
    along_row = torch.einsum("bdhw,bdhu->bhwu", q, k)  # (B, H, W, W)
    itself = torch.eye(height, dtype=torch.bool, device=q.device).unsqueeze(1)  # (H, 1, H)
    along_column = along_column.masked_fill(itself, -torch.inf)  # the row counts the pixel already
    weights = torch.softmax(torch.cat([along_column, along_row], dim=-1), dim=-1)
    column_weights, row_weights = weights.split([height, width], dim=-1)
    from_column = torch.einsum("bhwg,bcgw->bchw", column_weights, v)
    from_row = torch.einsum("bhwu,bchu->bchw", row_weights, v)
    return (from_column + from_row).to(dtype)
