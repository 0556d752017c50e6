"""Correctness on the GPU, before anything is measured: against float64, on fresh inputs, fresh memory poisoned."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from gpu_timing import Result, attempt, relative_error
from torch import Tensor

from enlcn.models.attention import ENLCA
from enlcn.ops.contrastive import Contrast, ranked_terms
from enlcn.ops.contrastive.by_top_k import ranked_terms as top_k_terms
from enlcn.ops.enlca import enlca, naive
from enlcn.ops.epilogues import bias_relu_, bias_residual_, bias_shuffle
from enlcn.ops.narrow_convolution import naive as naive_convolution
from enlcn.ops.narrow_convolution import narrow_conv3x3
from enlcn.ops.projection import draw_projection

# |error| / |value| of the output, and of each gradient (differences, so less exact). tf32 lands near 3e-4, bfloat16
# between 1e-3 and 1e-2.
_LIMITS = {torch.float32: (2e-3, 1e-2), torch.bfloat16: (1e-2, 5e-2), torch.float16: (1e-2, 5e-2)}


@dataclass(frozen=True)
class Case:
    """One problem: sizes, type, layout, and phi's eps."""

    batch: int
    channels: int
    height: int
    width: int
    query_width: int
    features: int
    dtype: torch.dtype
    channels_last: bool = True
    eps: float = 0.0

    @property
    def label(self) -> str:
        """A line's worth of it."""
        size = f"{self.batch}x{self.channels}x{self.height}x{self.width} D{self.query_width} M{self.features}"
        return f"{size} {str(self.dtype)[6:]} {'nhwc' if self.channels_last else 'nchw'} eps {self.eps:g}"


BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
FULL = [
    Case(1, 256, 101, 99, 64, 128, BF16),
    Case(1, 256, 96, 96, 64, 128, BF16, channels_last=False),
    Case(1, 256, 61, 67, 64, 128, FP32),
    Case(2, 256, 28, 28, 64, 128, FP16, eps=1e-4),
    Case(16, 64, 48, 48, 16, 128, BF16),
    Case(3, 64, 33, 31, 16, 128, FP32, channels_last=False, eps=1e-4),
    Case(2, 48, 1, 77, 12, 10, BF16),
    Case(1, 128, 40, 50, 32, 256, BF16),
]
TINY = [Case(1, 32, 5, 7, 8, 16, BF16), Case(2, 16, 4, 4, 4, 16, FP32, channels_last=False, eps=1e-4)]


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Fresh tensors hold NaN, so that what a kernel does not write is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def check_all(device: torch.device, *, tiny: bool) -> list[Result]:
    """Values and gradients, determinism, torch.compile, epilogues, L_cl, narrow convolution. Each entry has ok."""
    cases = TINY if tiny else FULL
    results = [attempt(f"check {case.label}", partial(check, case, device)) for case in cases]
    results.append(attempt("check bit-equal runs", lambda: check_determinism(device, tiny)))
    results.append(attempt("check torch.compile fullgraph", lambda: check_compiled(device, tiny)))
    results.append(attempt("check epilogues", lambda: check_epilogues(device)))
    results += [attempt(f"check L_cl, rows of {n}", partial(check_contrast, n, device)) for n in (784, 2304)]
    results.append(attempt("check narrow convolution", lambda: check_narrow_convolution(device)))
    return results


def problem(case: Case, device: torch.device) -> tuple[list[Tensor], Tensor]:
    """[x, the six weights] and F, fresh."""
    x = torch.randn(case.batch, case.channels, case.height, case.width, device=device).to(case.dtype)
    if case.channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    qk = [(case.query_width, case.channels), (case.query_width,)]
    shapes = [*qk, *qk, (case.channels, case.channels), (case.channels,)]
    weights = [torch.randn(shape, device=device) * case.channels**-0.5 for shape in shapes]
    return [x, *weights], draw_projection(case.features, case.query_width).to(device)


def check(case: Case, device: torch.device) -> Result:
    """The forward and the seven gradients against the equations in float64."""
    inputs, proj = problem(case, device)
    numbers: dict[str, Any] = {"amplification": 6.0, "feature_eps": case.eps, "res_scale": 1.0}
    exact_inputs = [t.double().requires_grad_() for t in inputs]
    expected = naive.enlca(*exact_inputs, proj.double(), **numbers)  # type: ignore[arg-type, call-arg]
    upstream = torch.randn_like(inputs[0])
    exact = torch.autograd.grad(expected, exact_inputs, upstream.double())
    inputs = [t.requires_grad_() for t in inputs]
    with poisoned_memory():
        out = enlca(*inputs, proj, backend="triton", **numbers)  # type: ignore[arg-type, call-arg]
        gradients = torch.autograd.grad(out, inputs, upstream)
    names = ("x", "theta", "theta bias", "delta", "delta bias", "psi", "psi bias")
    errors = {f"d {n}": relative_error(g, e) for n, g, e in zip(names, gradients, exact, strict=True)}
    y_error = relative_error(out.double() - exact_inputs[0], expected - exact_inputs[0])
    errors = {"out": relative_error(out, expected), "Y": y_error, **errors}
    for_values, for_gradients = _LIMITS[case.dtype]
    ok = errors["out"] < for_values and all(errors[f"d {name}"] < for_gradients for name in names)
    return {"ok": ok, "limits": [for_values, for_gradients], **errors}


def check_determinism(device: torch.device, tiny: bool) -> Result:
    """Two runs of forward and backward, bit by bit."""
    inputs, proj = problem(TINY[0] if tiny else FULL[0], device)
    inputs = [t.requires_grad_() for t in inputs]
    runs = []
    for _ in range(2):
        out = enlca(*inputs, proj, amplification=6.0, backend="triton")  # type: ignore[arg-type, misc]
        runs.append([out, *torch.autograd.grad(out.float().square().sum(), inputs)])
    return {"ok": all(torch.equal(a, b) for a, b in zip(*runs, strict=True))}


def check_compiled(device: torch.device, tiny: bool) -> Result:
    """A training step of the module compiled whole equals the eager one."""
    module = ENLCA(32 if tiny else 64, backend="triton").to(device)
    x = torch.randn(1, module.value.weight.shape[0], 6, 7, device=device, requires_grad=True)

    def step(x: Tensor) -> Tensor:
        out, (q, k) = module.forward_with_pair(x)
        return out.square().mean() + (q * k).mean()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager" if tiny else "inductor")
    (eager,), (whole,) = (torch.autograd.grad(f(x), [x]) for f in (step, compiled))
    error = relative_error(whole, eager)
    return {"ok": error < 2e-3, "error": error}


def check_epilogues(device: torch.device) -> Result:
    """Bias with ReLU, with residual, with shuffle, against plain PyTorch in float64."""
    y, residual = (
        torch.randn(2, 64, 9, 11, device=device).bfloat16().contiguous(memory_format=torch.channels_last)
        for _ in range(2)
    )
    bias = torch.randn(64, device=device).bfloat16()
    biased = y.double() + bias.double().view(1, -1, 1, 1)
    errors = {
        "relu": relative_error(bias_relu_(y.clone(), bias), biased.relu()),
        "residual": relative_error(bias_residual_(y.clone(), bias, residual), biased + residual.double()),
        "shuffle": relative_error(bias_shuffle(y, bias, 2), bias_shuffle(y.double(), bias.double(), 2)),
    }
    return {"ok": all(error < 1e-2 for error in errors.values()), **errors}


def check_contrast(num_positions: int, device: torch.device) -> Result:
    """The ranking kernel's terms and gradient against top-k in float64."""
    rows = torch.randn(2, 12, num_positions, device=device)
    count, start = Contrast().ranks(num_positions)
    terms = {"margin": 3.0, "hinge": True, "floor": 0.0, "slope": 1.0}
    gradient, exact_gradient = rows.clone(), rows.double()
    value = ranked_terms(gradient)(gradient, count, start, **terms, gradient=gradient)
    exact = top_k_terms(exact_gradient, count, start, **terms, gradient=exact_gradient)  # type: ignore[arg-type]
    errors = {"terms": relative_error(value, exact), "d T": relative_error(gradient, exact_gradient)}
    return {"ok": all(error < 1e-4 for error in errors.values()), **errors}


def check_narrow_convolution(device: torch.device) -> Result:
    """256 channels to 3 in bfloat16 with float32 results, against float64 with the same operands."""
    x = torch.randn(2, 256, 13, 17, device=device).bfloat16().contiguous(memory_format=torch.channels_last)
    weight = (torch.randn(3, 256, 3, 3, device=device) / 48).bfloat16().float()
    gradient = torch.randn(2, 3, 13, 17, device=device).bfloat16().float()
    ours = [t.requires_grad_() for t in (x, weight)]
    exact = [t.detach().double().requires_grad_() for t in ours]
    out, exact_out = narrow_conv3x3(*ours), naive_convolution(*exact)
    found = [out, *torch.autograd.grad(out, ours, gradient)]
    wanted = [exact_out, *torch.autograd.grad(exact_out, exact, gradient.double())]
    errors = {name: relative_error(a, b) for name, a, b in zip(("out", "d x", "d weight"), found, wanted, strict=True)}
    return {"ok": errors["out"] < 1e-4 and errors["d x"] < 5e-3 and errors["d weight"] < 1e-4, **errors}
