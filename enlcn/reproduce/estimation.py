"""How far random features are from what they estimate, on the queries and keys of a real network.

Axes: N positions, D query/key width, M random features, C value channels, P pairs or rows looked at.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import normalize

from enlcn.errors import UserError
from enlcn.models.attention import ENLCA, Attention, flatten
from enlcn.models.backbone import SRNetwork
from enlcn.ops.generalised_features import best_parameter, generalised_log_features, log_relative_second_moment
from enlcn.ops.projection import draw_projection
from enlcn.ops.softmax_attention import softmax_attention

NUM_PAIRS = 2048
NUM_ROWS = 256


@dataclass(frozen=True)
class Features:
    """One attention on one image: directions of queries and keys (N, D), of length 1, and values (N, C)."""

    q: Tensor
    k: Tensor
    v: Tensor


@dataclass(frozen=True)
class Estimator:
    """A way to draw features: how rows of F depend on each other, and whether A is fitted to the norms (else 0)."""

    name: str
    projection: str
    generalised: bool

    def parameter(self, mean_squared_norm: float, dim: int) -> float:
        """A."""
        return best_parameter(mean_squared_norm, dim) if self.generalised else 0.0


ESTIMATORS = (
    Estimator("iid", "iid", False),
    Estimator("orthogonal", "orthogonal", False),
    Estimator("generalised iid", "iid", True),
    Estimator("generalised orthogonal", "orthogonal", True),
)


@torch.no_grad()
def features_of(network: SRNetwork, lr: Tensor) -> list[Features]:
    """What every attention of `network` sees in lr (1, 3, H, W)."""
    if not network.attentions:
        raise UserError("this network has no attention to measure; give another with --model")
    found = []
    x = network.head(lr - network.rgb_mean)
    for stage in network.stages:
        attention = stage.attention
        if isinstance(attention, Attention):
            q, k = attention.queries_keys(x)
            v = flatten(attention.value(x))
            found.append(Features(normalize(q[0].float(), dim=-1), normalize(k[0].float(), dim=-1), v[0].float()))
        x = stage(x)
    return found


def feature_attention(log_q: Tensor, log_k: Tensor, v: Tensor) -> Tensor:
    """phi(Q)^T (phi(K) V^T) / D from log features, in time linear in the number of positions.

    Args:
        log_q: (N, M), of queries.
        log_k: (N', M), of keys.
        v: (N', C).

    Returns:
        (N, C).
    """
    phi_q, phi_k = _in_range(log_q, log_k)
    return (phi_q @ (phi_k.mT @ v)) / (phi_q @ phi_k.sum(0)[:, None])


def feature_weights(log_q: Tensor, log_k: Tensor) -> Tensor:
    """The weights of `feature_attention`, (N, N'), each row summing to 1."""
    phi_q, phi_k = _in_range(log_q, log_k)
    products = phi_q @ phi_k.mT
    return products / products.sum(-1, keepdim=True)


def _in_range(log_q: Tensor, log_k: Tensor) -> tuple[Tensor, Tensor]:
    """Features of queries and keys, shifted by maxima that cancel in the attention's ratio."""
    shift = log_k.amax(0)
    exponent = log_q + shift
    return (exponent - exponent.amax(-1, keepdim=True)).exp(), (log_k - shift).exp()


@torch.no_grad()
def kernel_error(
    features: Sequence[Features], amplification: float, estimator: Estimator, *, num_features: int, draws: int
) -> dict[str, float]:
    """Estimates of exp(q.k) against the truth, over pairs of positions and draws of F.

    Args:
        features: where pairs are taken from.
        amplification: k, given to both directions as squared length.
        estimator: how features are drawn.
        num_features: M.
        draws: of F.

    Returns:
        log10 of the mean variance by the formula (Proof 2 where A = 0) and as measured, both as they are and over
        exp(q.k)^2; the median error over exp(q.k); A.
    """
    generator = torch.Generator().manual_seed(0)
    q, k = _pairs(features, amplification, generator)
    squared_norm = (q + k).square().sum(-1)
    dim = q.shape[-1]
    a = estimator.parameter(squared_norm.mean().item(), dim)
    log_kernel = (q * k).sum(-1)
    log_relative = _log_expm1(log_relative_second_moment(squared_norm, dim, a)) - math.log(num_features)

    sums = torch.zeros(2, len(q), dtype=torch.float64, device=q.device)
    errors = []
    for _ in range(draws):
        proj = draw_projection(num_features, dim, kind=estimator.projection, generator=generator).to(q)
        log_terms = generalised_log_features(q, proj, a) + generalised_log_features(k, proj, a)
        ratio = (log_terms.logsumexp(-1) - math.log(num_features) - log_kernel).exp()  # estimate over truth
        sums += torch.stack([(ratio - 1).square(), (ratio - 1).square() * (2 * log_kernel).exp()])
        errors.append((ratio - 1).abs())
    relative, absolute = (sums / draws).mean(1).tolist()
    return {
        "log10_formula": _log10_mean(log_relative + 2 * log_kernel),
        "log10_formula_relative": _log10_mean(log_relative),
        "log10_measured": math.log10(absolute),
        "log10_measured_relative": math.log10(relative),
        "median_error": torch.cat(errors).median().item(),
        "a": a,
        "mean_cosine": log_kernel.mean().item() / amplification,
    }


@torch.no_grad()
def output_error(
    features: Sequence[Features], amplification: float, estimator: Estimator, *, num_features: int, draws: int
) -> dict[str, float]:
    """The attention made of estimates against exact attention: its weights and its output, over draws of F.

    Returns:
        weights: how much of a row's weight lies elsewhere (total variation), mean over rows; output: |Y' - Y| / |Y|.
    """
    generator = torch.Generator().manual_seed(1)
    weights, outputs = [], []
    for each in features:
        q, k, v = math.sqrt(amplification) * each.q, math.sqrt(amplification) * each.k, each.v
        rows = torch.randperm(len(q), generator=generator)[:NUM_ROWS].to(q.device)
        q = q[rows]
        exact = torch.softmax(q @ k.mT, dim=-1)
        a = estimator.parameter((2 * amplification + 2 * (q.mean(0) @ k.mean(0))).item(), q.shape[-1])
        for _ in range(draws):
            proj = draw_projection(num_features, q.shape[-1], kind=estimator.projection, generator=generator).to(q)
            log_q, log_k = (generalised_log_features(u, proj, a) for u in (q, k))
            estimated = feature_weights(log_q, log_k)
            weights.append((estimated - exact).abs().sum(-1).mean().item() / 2)
            outputs.append(((estimated - exact) @ v).norm().item() / (exact @ v).norm().item())
    return {"weights": fmean(weights), "output": fmean(outputs)}


@torch.no_grad()
def attention_error(network: SRNetwork, photos: Sequence[Tensor]) -> dict[str, float]:
    """A trained network's own estimate: its F and k, against exact attention on its own queries and keys.

    Args:
        network: with ENLCA.
        photos: (1, 3, H, W) each.

    Returns:
        log10 of Proof 2's variance, mean over pairs; mean cosine of q and k; |Y' - Y| / |Y|; and the share of exact
        attention that the heaviest 1 % of the pixels hold.
    """
    errors, focus, features = [], [], []
    attentions = [each for each in network.attentions if isinstance(each, ENLCA)]
    for lr in photos:
        found = features_of(network, lr)
        features += found
        for attention, each in zip(attentions, found, strict=True):
            length = math.sqrt(attention.amplification or 1.0)
            q, k = length * each.q, length * each.k
            exact = torch.softmax(q @ k.mT, dim=-1)
            log_q, log_k = (generalised_log_features(u, attention.projection) for u in (q, k))
            y = exact @ each.v
            errors.append((feature_attention(log_q, log_k, each.v) - y).norm().item() / y.norm().item())
            focus.append(exact.topk(max(1, len(k) // 100), dim=-1).values.sum(-1).mean().item())
    amplification = attentions[0].amplification or 1.0
    m = attentions[0].num_features
    q, k = _pairs(features, amplification, torch.Generator().manual_seed(0))
    log_kernel, dim = (q * k).sum(-1), q.shape[-1]
    second = log_relative_second_moment((q + k).square().sum(-1), dim, 0.0)
    return {
        "log10_formula": _log10_mean(_log_expm1(second) - math.log(m) + 2 * log_kernel),
        "mean_cosine": log_kernel.mean().item() / amplification,
        "output": fmean(errors),
        "focus": fmean(focus),
    }


class Replaced(Attention):
    """A trained attention whose estimate of exp(q.k) is another one, or none: exact softmax.

    Args:
        trained: whose projections are used.
        estimator: None for exact attention.
        num_features: M.
        generator: source of F.
    """

    projection: Tensor

    def __init__(
        self, trained: ENLCA, estimator: Estimator | None, *, num_features: int, generator: torch.Generator
    ) -> None:
        channels = trained.value.in_channels
        super().__init__(
            channels,
            reduction=channels // trained.query_width,
            amplification=trained.amplification,
            res_scale=trained.res_scale,
        )
        self.query, self.key, self.value = trained.query, trained.key, trained.value
        self.estimator = estimator
        if estimator is not None:
            proj = draw_projection(num_features, self.query_width, kind=estimator.projection, generator=generator)
            self.register_buffer("projection", proj.to(trained.projection))

    def weigh(self, q: Tensor, k: Tensor, v: Tensor, size: torch.Size) -> Tensor:
        """Exact attention, or its estimate with A fitted to these queries and keys. (1, N, D) twice, (1, N, C)."""
        if self.estimator is None:
            return softmax_attention(q, k, v, chunk_size=4096)
        amplification = q[0].square().sum(-1).mean().item()
        mean_squared_norm = 2 * amplification + 2 * (q[0].mean(0) @ k[0].mean(0)).item()
        a = self.estimator.parameter(mean_squared_norm, self.query_width)
        log_q, log_k = (generalised_log_features(u[0], self.projection, a) for u in (q, k))
        return feature_attention(log_q, log_k, v[0].float())[None]


def _pairs(features: Sequence[Features], amplification: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Queries and keys of random positions, (P, D) each, float64."""
    count = max(1, NUM_PAIRS // len(features))
    q, k = [], []
    for each in features:
        rows, columns = torch.randint(len(each.q), (2, count), generator=generator).to(each.q.device)
        q.append(each.q[rows])
        k.append(each.k[columns])
    length = math.sqrt(amplification)
    return length * torch.cat(q).double(), length * torch.cat(k).double()


def _log_expm1(x: Tensor) -> Tensor:
    """log(exp(x) - 1) without overflow."""
    return x + torch.log(-torch.expm1(-x))


def _log10_mean(logs: Tensor) -> float:
    return ((logs.logsumexp(0) - math.log(len(logs))) / math.log(10)).item()
