"""ENLCA, the paper's module, and the frame that its rivals share: (B, C, H, W) -> (B, C, H, W).

Axes: B batch, C channels, N = H W positions, D query/key width, M features.
"""

import importlib.util
import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, normalize

from enlcn.errors import UserError
from enlcn.ops.enlca import can_run, enlca
from enlcn.ops.enlca.naive import NORM_EPS
from enlcn.ops.linear_attention import BACKENDS as PLAIN_BACKENDS
from enlcn.ops.linear_attention import choose, linear_attention, needs_rescaling
from enlcn.ops.precision import at_least_float32, no_autocast
from enlcn.ops.projection import draw_projection

Pair = tuple[Tensor, Tensor]
BACKENDS = ("auto", *PLAIN_BACKENDS, "triton")
_FEW_POSITIONS = 1024


def require(condition: bool, message: str) -> None:
    """A ValueError that says `message`, where a module's argument does not hold `condition`."""
    if not condition:
        raise ValueError(message)


def flatten(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, N, C), a view."""
    return x.flatten(2).mT


def require_images(x: Tensor) -> None:
    """A ValueError that says what to give, where x is not (B, C, H, W)."""
    if x.dim() != 4:
        raise ValueError(f"the input has shape {tuple(x.shape)}; give (B, C, H, W), one image as x.unsqueeze(0)")


def says_all(*projections: nn.Module) -> bool:
    """Whether weights and biases alone say what these projections compute.

    They do not where one was replaced or wrapped, as adapters do, has no bias, or has hooks, as pruning has.
    """
    return all(
        isinstance(each, nn.Conv2d)
        and type(each).forward is nn.Conv2d.forward
        and each.bias is not None
        and not (each._forward_hooks or each._forward_pre_hooks or each._backward_hooks or each._backward_pre_hooks)
        for each in projections
    )


class Attention(nn.Module, ABC):
    """The common frame: project x to queries and keys, mix values by them, add the result to x.

    Args:
        channels: C.
        reduction: C / D.
        amplification: k, the squared length given to queries and keys; None leaves them as projected.
        res_scale: the module gives x + res_scale * Y.
    """

    def __init__(
        self, channels: int, *, reduction: int = 4, amplification: float | None = None, res_scale: float = 0.1
    ):
        super().__init__()
        require(
            reduction >= 1 and channels >= 1 and channels % reduction == 0,
            f"channels ({channels}) must be a multiple of the reduction ({reduction}), both at least 1",
        )
        require(
            amplification is None or 0 < amplification < math.inf,
            f"amplification is {amplification}; it must be positive and finite",
        )
        require(math.isfinite(res_scale), f"res_scale is {res_scale}; it must be finite")
        self.query_width = channels // reduction
        self.amplification = amplification
        self.res_scale = res_scale
        self.query = nn.Conv2d(channels, self.query_width, kernel_size=1)  # theta
        self.key = nn.Conv2d(channels, self.query_width, kernel_size=1)  # delta
        self.value = nn.Conv2d(channels, channels, kernel_size=1)  # psi

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        return self.forward_with_pair(x)[0]

    def extra_repr(self) -> str:
        """What `print` says beside the projections."""
        return f"amplification={self.amplification}, res_scale={self.res_scale}"

    def forward_with_pair(self, x: Tensor) -> tuple[Tensor, Pair]:
        """`forward`, and the queries and keys (each (B, N, D)) that the contrastive loss ranks."""
        require_images(x)
        q, k = self.queries_keys(x)
        return x + self.res_scale * self.mix(q, k, x).to(x.dtype), (q, k)

    def queries_keys(self, x: Tensor) -> Pair:
        """Queries and keys, (B, N, D) each, in float32, by one projection where that is all: x is read once."""
        if not says_all(self.query, self.key):
            return self.amplify(self.query(x)), self.amplify(self.key(x))
        assert self.query.bias is not None
        assert self.key.bias is not None
        weight = torch.cat([self.query.weight, self.key.weight])
        projected = conv2d(x, weight, torch.cat([self.query.bias, self.key.bias]))
        q, k = projected.split(self.query_width, dim=1)
        return self.amplify(q), self.amplify(k)

    def amplify(self, projected: Tensor) -> Tensor:
        """(B, D, H, W) -> (B, N, D), each position scaled to length sqrt(k) (Eq. 3)."""
        tokens = at_least_float32(flatten(projected))
        if self.amplification is None:
            return tokens
        return normalize(tokens, dim=-1, eps=NORM_EPS) * math.sqrt(self.amplification)

    def mix(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        """Y: values mixed by q and k. (B, N, D), (B, N, D), (B, C, H, W) -> (B, C, H, W)."""
        v = flatten(self.value(x))
        with no_autocast(x.device):
            y = self.weigh(q, k, v, x.shape[-2:])
        return y.mT.unflatten(2, x.shape[-2:])

    @abstractmethod
    def weigh(self, q: Tensor, k: Tensor, v: Tensor, size: torch.Size) -> Tensor:
        """The attention itself, linear in v. (B, N, D), (B, N, D), (B, N, C) -> (B, N, C)."""

    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw the module's random matrix anew, where it has one."""


class ENLCA(Attention):
    """Efficient non-local contrastive attention: linear in the number of pixels, for any (B, C, H, W).

    Its projections may be replaced, wrapped or pruned; then they are called, and plain PyTorch does the rest.
    `torch.func` needs `backend="naive"`: above 8192 positions "auto" recomputes features in the backward pass.

    >>> import torch
    >>> ENLCA(channels=32, num_features=16)(torch.randn(2, 32, 7, 9)).shape
    torch.Size([2, 32, 7, 9])

    Args:
        channels: C.
        reduction: C / D.
        num_features: M, the random features (m in the paper).
        amplification: k; None leaves queries and keys as projected.
        projection: rows of F "orthogonal" or "iid".
        feature_eps: added to exp(...) in phi, 1e-4 in the authors' code.
        res_scale: the module gives x + res_scale * Y.
        backend: "naive" and "chunked" name a `linear_attention`; "triton" is the kernels of `ops.enlca` (but where
            features need rescaling), and "auto" takes those where they run.
        generator: source of F; torch's global one if None.
    """

    projection: Tensor

    def __init__(
        self,
        channels: int = 256,
        reduction: int = 4,
        num_features: int = 128,
        amplification: float | None = 6.0,
        *,
        projection: str = "orthogonal",
        feature_eps: float = 0.0,
        res_scale: float = 0.1,
        backend: str = "auto",
        generator: torch.Generator | None = None,
    ):
        super().__init__(channels, reduction=reduction, amplification=amplification, res_scale=res_scale)
        require(num_features >= 1, f"num_features is {num_features}; it must be at least 1")
        require(feature_eps >= 0, f"feature_eps is {feature_eps}; it must not be negative")
        require(backend in BACKENDS, f"unknown backend {backend!r}; choose from {', '.join(BACKENDS)}")
        if backend == "triton" and importlib.util.find_spec("triton") is None:
            raise UserError("backend 'triton' needs Triton, which is not installed; pip install triton, or take 'auto'")
        self.num_features = num_features
        self.projection_kind = projection
        self.feature_eps = feature_eps
        self.backend = backend
        self.stable = needs_rescaling(amplification, self.query_width, num_features)
        self.register_buffer("projection", torch.empty(num_features, self.query_width))
        self.redraw(generator)

    def extra_repr(self) -> str:
        """What `print` says beside the projections."""
        return f"num_features={self.num_features}, projection={self.projection_kind!r}, {super().extra_repr()}"

    @torch.no_grad()
    def redraw(self, generator: torch.Generator | None = None) -> None:
        """Draw F anew, in place, so that compiled graphs see it."""
        if self.projection.is_meta:  # a network without memory, as for reading a file: nothing to draw into
            return
        self.projection.copy_(
            draw_projection(self.num_features, self.query_width, kind=self.projection_kind, generator=generator)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C, H, W)."""
        require_images(x)
        if self.uses_kernels(x):
            return self.by_kernels(x)
        return super().forward(x)

    def forward_with_pair(self, x: Tensor) -> tuple[Tensor, Pair]:
        """`forward`, and the queries and keys (each (B, N, D)) that the contrastive loss ranks."""
        require_images(x)
        if self.uses_kernels(x):
            return self.by_kernels(x), self.queries_keys(x)
        return super().forward_with_pair(x)

    def uses_kernels(self, x: Tensor) -> bool:
        """Whether `ops.enlca` computes the module for this input. Features that need rescaling it leaves alone."""
        if self.stable or not says_all(self.query, self.key, self.value):
            return False
        if self.backend == "auto":
            return can_run(x, self.projection) and not self._compiles_better(x)
        return self.backend == "triton"

    @staticmethod
    def _compiles_better(x: Tensor) -> bool:
        """Whether torch.compile's own kernels train faster: they do where features are few enough to stay in cache."""
        return torch.compiler.is_compiling() and torch.is_grad_enabled() and x.shape[-2] * x.shape[-1] <= _FEW_POSITIONS

    @property
    def fallback(self) -> str:
        """The `linear_attention` that serves where the kernels do not."""
        return "auto" if self.backend == "triton" else self.backend

    def by_kernels(self, x: Tensor) -> Tensor:
        """x + res_scale * Y in two passes over x, without queries, keys or features in memory."""
        assert self.amplification is not None
        assert self.query.bias is not None
        assert self.key.bias is not None
        assert self.value.bias is not None
        return enlca(
            x,
            self.query.weight.flatten(1),
            self.query.bias,
            self.key.weight.flatten(1),
            self.key.bias,
            self.value.weight.flatten(1),
            self.value.bias,
            self.projection,
            amplification=self.amplification,
            feature_eps=self.feature_eps,
            res_scale=self.res_scale,
            backend="triton",
        )

    def mix(self, q: Tensor, k: Tensor, x: Tensor) -> Tensor:
        """Y without forming V = psi(X): psi is linear, so phi(K) V^T = (phi(K) X^T) W^T + (phi(K) 1) b^T."""
        if not says_all(self.value):
            return super().mix(q, k, x)
        ops = choose(self.fallback, k.shape[1])
        shift = ops.feature_maximum(k, self.projection, self.feature_eps) if self.stable else None
        kx, z = ops.summarise(k, flatten(x), self.projection, self.feature_eps, shift)
        kv = self.project_summary(kx, z)
        y = ops.apply(q, kv, z, self.projection, self.feature_eps, shift)
        return y.mT.unflatten(2, x.shape[-2:])

    def project_summary(self, kx: Tensor, z: Tensor) -> Tensor:
        """kv from kx = phi(K) X^T: psi applied to the summary. (B, M, C), (B, M) -> (B, M, C)."""
        weight = at_least_float32(self.value.weight).flatten(1)  # (C, C)
        with no_autocast(kx.device):
            kv = kx @ weight.mT
        if self.value.bias is not None:
            kv = kv + z.unsqueeze(-1) * at_least_float32(self.value.bias)
        return kv

    def weigh(self, q: Tensor, k: Tensor, v: Tensor, size: torch.Size) -> Tensor:
        """phi(Q)^T (phi(K) V^T) / D. (B, N, D), (B, N, D), (B, N, C) -> (B, N, C)."""
        return linear_attention(
            q, k, v, self.projection, eps=self.feature_eps, stable=self.stable, backend=self.fallback
        )
