"""Muon: momentum whose every step is made orthogonal, so that all directions of a weight matrix learn alike.

Of the gradient's momentum G = U S V^T a step takes U V^T, by a few Newton-Schulz products instead of an SVD (K. Jordan
and others, 2024). A convolution's weight (O, I, 3, 3) is a matrix of O rows. Steps are as long as Adam's usually are,
0.2 sqrt(max(R, C)) times the learning rate (J. Liu and others, 2025), so that both can share one.

Axes: L matrices of one shape, R rows, C columns.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

# Five steps of this polynomial bring every singular value near 1 (between about 0.7 and 1.2), also very small ones.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5
_ADAM_LIKE = 0.2


def orthogonalise_naive(matrices: Tensor) -> Tensor:
    """U V^T of each U S V^T, exactly. (L, R, C) -> (L, R, C)."""
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    return u @ vt


def orthogonalise(matrices: Tensor) -> Tensor:
    """As `orthogonalise_naive`, but with singular values only near 1, by matrix products in `matrices`' type."""
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    a, b, c = _COEFFICIENTS
    for _ in range(_STEPS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


class Muon(Optimizer):
    """For weights with two axes or more; everything else belongs to Adam.

    Matrices of one shape step together, in a few large products. A step whose gradients are not finite
    (`found_inf` is 1) changes neither weights nor momentum, and the host need not know.

    Args:
        weights: (R, ...) each.
        lr: a scalar on the weights' device.
        momentum: how much of it stays at each step.
        factor: steps are so many times as long as Adam's would be.
    """

    found_inf: Tensor | None = None

    def __init__(self, weights: Iterable[Tensor], lr: Tensor, momentum: float = 0.95, factor: float = 1.0):
        super().__init__(list(weights), {"lr": lr, "momentum": momentum, "factor": factor})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step by the gradients that are there."""
        for group in self.param_groups:
            alike: defaultdict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    alike[_matrix(weight).shape].append(weight)
            for weights in alike.values():
                self._step_together(weights, group["factor"] * group["lr"], group["momentum"])

    def _step_together(self, weights: list[Tensor], learning_rate: Tensor, momentum: float) -> None:
        gradients = torch.stack([_matrix(weight.grad) for weight in weights if weight.grad is not None])
        state = self.state[weights[0]]  # one for all that step together
        if not state:
            state["momentum"] = torch.zeros_like(gradients)
        kept: Tensor = state["momentum"]
        if self.found_inf is not None:
            gradients = torch.where(self.found_inf > 0, kept, gradients)
            learning_rate = learning_rate * (1 - self.found_inf)
        kept.lerp_(gradients, 1 - momentum)
        ahead = gradients.lerp(kept, momentum)  # Nesterov's
        exact = not ahead.is_cuda or torch.get_float32_matmul_precision() == "highest"
        narrow = ahead.dtype if exact else torch.bfloat16  # singular values need only be near 1
        length = _ADAM_LIKE * math.sqrt(max(ahead.shape[1:]))
        steps = orthogonalise(ahead.to(narrow)) * (-length * learning_rate)
        torch._foreach_add_(weights, [_like(step, weight) for step, weight in zip(steps, weights, strict=True)])


def _matrix(weight: Tensor) -> Tensor:
    """(R, ...) -> (R, C), columns in the order of memory: orthogonal factors do not depend on it."""
    return (weight.permute(0, 2, 3, 1) if weight.ndim == 4 else weight).flatten(1)


def _like(matrix: Tensor, weight: Tensor) -> Tensor:
    """(R, C) -> weight's shape: `_matrix` undone."""
    if weight.ndim != 4:
        return matrix.view_as(weight)
    rows, channels, height, width = weight.shape
    return matrix.view(rows, height, width, channels).permute(0, 3, 1, 2)
