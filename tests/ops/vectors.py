"""Queries and keys of a given length, as the networks make them."""

import torch
from torch import Tensor
from torch.nn.functional import normalize


def of_length(amplification: float, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return normalize(torch.randn(*shape, dtype=dtype), dim=-1) * amplification**0.5
