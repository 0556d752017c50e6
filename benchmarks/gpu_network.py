"""Whole networks on the GPU: the paper's at two image sizes, and training steps with the kernels on and off."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from gpu_timing import Result, attempt, event_ms, gpu_ms, replayed, wall_ms
from torch import Tensor, nn

from enlcn import recipes
from enlcn.config import ModelConfig
from enlcn.cost import network_flops
from enlcn.losses import total_loss
from enlcn.models.attention import ENLCA
from enlcn.models.backbone import SRNetwork
from enlcn.models.fast import FastNetwork
from enlcn.ops.contrastive import Contrast, ranked_terms
from enlcn.ops.contrastive.by_top_k import ranked_terms as top_k_terms
from enlcn.ops.epilogues import bias_relu_, bias_residual_

# cuDNN times its algorithms for every contender alike up to 640x360; at 1280x720 that takes minutes.
_TUNED_PIXELS = 640 * 360
_TINY = replace(recipes.TINY, num_blocks=2, attention_after=(0, 2))


def networks(device: torch.device, *, tiny: bool) -> list[Result]:
    """ENLCN x4 on 640x360 and 1280x720: ours, its parts left out, and the plain network in bfloat16."""
    config = _TINY if tiny else recipes.ENLCN
    torch.manual_seed(0)
    network = SRNetwork(config).to(device).eval().requires_grad_(False)
    results = []
    for height, width in ((8, 10),) if tiny else ((360, 640), (720, 1280)):
        lr = torch.rand(1, 3, height, width, device=device)
        exact = _exact(network, lr)
        for label, build in _engines(network).items():
            with torch.device("cpu"):
                flops = network_flops(config, height, width, folds=label.startswith("ours"))
            measure = partial(_measure_network, build, lr, exact, flops)
            results.append({"engine": label, **attempt(f"network {label} {width}x{height}", measure)})
    results += _convolution_parts(device, tiny)
    return results


def _exact(network: SRNetwork, lr: Tensor) -> Tensor:
    """The network in float32, tf32 off."""
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32, cudnn.benchmark
    cudnn.allow_tf32, cudnn.benchmark = False, False
    try:
        with torch.no_grad():
            return network(lr)
    finally:
        cudnn.allow_tf32, cudnn.benchmark = before


def _engines(network: SRNetwork) -> dict[str, Callable[[], Callable[[Tensor], Tensor]]]:
    return {
        "ours": lambda: FastNetwork(network),
        "ours, ReLU in a pass of its own": lambda: FastNetwork(network, fused_relu=False),
        "ours, that and no graph": lambda: FastNetwork(network, fused_relu=False, graphs=False),
        "plain bf16": lambda: _plain(network, channels_last=False),
        "plain bf16, channels_last": lambda: _plain(network, channels_last=True),
    }


def _plain(network: SRNetwork, *, channels_last: bool) -> Callable[[Tensor], Tensor]:
    plain = copy.deepcopy(network).bfloat16()
    plain.upsampler.folds = False
    for attention in plain.attentions:
        if isinstance(attention, ENLCA):
            attention.backend = "naive"
    layout = torch.channels_last if channels_last else torch.contiguous_format
    for parameter in plain.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=layout)
    return lambda lr: plain(lr.bfloat16().contiguous(memory_format=layout))


@torch.no_grad()
def _measure_network(build: Callable[[], Callable[[Tensor], Tensor]], lr: Tensor, exact: Tensor, flops: int) -> Result:
    if lr.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    engine = build()
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = lr.shape[2] * lr.shape[3] <= _TUNED_PIXELS
    try:
        psnr = -10 * torch.log10((engine(lr).float() - exact).square().mean()).item()
        wall = wall_ms(engine, lr, budget_s=1.0)
        gpu = event_ms(lambda: engine(lr), budget_s=1.0) if lr.is_cuda else wall
    finally:
        torch.backends.cudnn.benchmark = before
    peak = torch.cuda.max_memory_allocated() / 1e9 if lr.is_cuda else 0.0
    size = f"{lr.shape[3]}x{lr.shape[2]}"
    rate = flops / gpu / 1e9
    return {"size": size, "gpu_ms": gpu, "wall_ms": wall, "tflop_per_s": rate, "psnr_to_fp32": psnr, "peak_gb": peak}


def _convolution_parts(device: torch.device, tiny: bool) -> list[Result]:
    """One body convolution and what may follow it: what the network's time is made of."""
    channels, height, width = (16, 6, 8) if tiny else (256, 360, 640)
    x = torch.randn(1, channels, height, width, device=device, dtype=torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last)
    convolution = nn.Conv2d(channels, channels, 3, padding=1, device=device, dtype=torch.bfloat16)
    weight = convolution.weight.detach().contiguous(memory_format=torch.channels_last)
    bias = torch.randn(channels, device=device, dtype=torch.bfloat16)
    residual = torch.randn_like(x)
    functions: dict[str, Callable[[Tensor], Tensor]] = {
        "conv": lambda x: nn.functional.conv2d(x, weight, padding=1),
        "conv + bias": lambda x: nn.functional.conv2d(x, weight, bias, padding=1),
        "conv + bias + relu (PyTorch)": lambda x: nn.functional.conv2d(x, weight, bias, padding=1).relu_(),
        "conv, then our bias + relu": lambda x: bias_relu_(nn.functional.conv2d(x, weight, padding=1), bias),
        "our bias + relu alone": lambda x: bias_relu_(residual, bias),
        "our bias + residual alone": lambda x: bias_residual_(residual, bias, x),
    }
    if device.type == "cuda":
        functions["conv + bias + relu (cuDNN)"] = lambda x: torch.cudnn_convolution_relu(
            x, weight, bias, (1, 1), (1, 1), (1, 1), 1
        )
    flops = 2 * 9 * channels**2 * height * width

    def measure(function: Callable[[Tensor], Tensor]) -> Result:
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True
        try:
            ms = gpu_ms(function, [x], budget_s=0.3)
        finally:
            torch.backends.cudnn.benchmark = before
        return {"gpu_ms": ms, "tflop_per_s": flops / ms / 1e9}

    return [{"part": label, **attempt(f"part {label}", partial(measure, f))} for label, f in functions.items()]


def training(device: torch.device, *, tiny: bool) -> list[Result]:
    """A module's forward and backward, and a whole step (bf16 autocast, L1 + L_cl, fused Adam), kernels on and off."""
    workloads = {
        "paper size, 16 of 28x28": (recipes.ENLCN, 16, 28, None),
        "small, 64 of 48x48, 16 rows": (recipes.SMALL, 64, 48, 16),
    }
    if tiny:
        workloads = {"tiny, 2 of 6x6": (_TINY, 2, 6, 4)}
    results = []
    for label, (config, batch, size, rows) in workloads.items():
        for kernels in (True, False):
            name = f"{label}, kernels {'on' if kernels else 'off'}"
            module = partial(_module_step, config, batch, size, kernels, device)
            results.append({"workload": label, "kernels": kernels, **attempt(f"module {name}", module)})
            step = partial(_training_step, config, batch, size, rows, kernels, device)
            results.append({"workload": label, "kernels": kernels, **attempt(f"step {name}", step)})
    results += _rankings(device, tiny)
    return results


def _module_step(config: ModelConfig, batch: int, size: int, kernels: bool, device: torch.device) -> Result:
    module = ENLCA(config.channels, num_features=config.attention.num_features).to(device)
    module.backend = "triton" if kernels else "naive"
    x = torch.randn(batch, config.channels, size, size, device=device, dtype=torch.bfloat16)
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    gradient = torch.randn_like(x)

    def step() -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            out = module(x)
        torch.autograd.grad(out, [x, *module.parameters()], gradient)

    wall = wall_ms(lambda _: step(), x)
    return {"wall_ms": wall, **replayed(step, x)}


def _training_step(
    config: ModelConfig, batch: int, size: int, rows: int | None, kernels: bool, device: torch.device
) -> Result:
    torch.manual_seed(0)
    network = SRNetwork(config).to(device)
    for parameter in network.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    for attention in network.attentions:
        if isinstance(attention, ENLCA):
            attention.backend = "triton" if kernels else "naive"
    cuda = device.type == "cuda"
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, capturable=cuda, fused=cuda)
    lr = torch.rand(batch, 3, size, size, device=device).contiguous(memory_format=torch.channels_last)
    hr = torch.rand(batch, 3, size * config.scale, size * config.scale, device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            sr, pairs = network.forward_with_pairs(lr)
        loss, _ = total_loss(sr.float(), hr, pairs, num_rows=rows)
        loss.backward()
        optimizer.step()

    wall = wall_ms(lambda _: step(), lr, budget_s=1.0)
    return {"wall_ms": wall, **replayed(step, lr)}


def _rankings(device: torch.device, tiny: bool) -> list[Result]:
    """Ways to L_cl's terms and gradient from T: by top-k and by the kernel; a full sort alone beside them."""
    shapes = {
        "16 x 784 rows of 784": (16, 784, 784),
        "64 x 16 rows of 2304": (64, 16, 2304),
        "32 x 227 rows of 2304": (32, 227, 2304),
    }
    if tiny:
        shapes = {"2 x 8 rows of 36": (2, 8, 36)}
    results = []
    for label, shape in shapes.items():
        t = torch.randn(shape, device=device)
        gradient = torch.empty_like(t)
        count, start = Contrast().ranks(shape[-1])
        by_top_k, by_kernel = (
            partial(f, count=count, start=start, margin=1.0, hinge=True, floor=0.0, slope=1.0)
            for f in (top_k_terms, ranked_terms(t))
        )
        ways: dict[str, Callable[[Tensor], object]] = {
            "sort alone": lambda t: t.sort(dim=-1, descending=True),
            "terms and gradient by top-k": lambda t, f=by_top_k, g=gradient: f(t, gradient=g),  # type: ignore[misc]
            "terms and gradient by kernel": lambda t, f=by_kernel, g=gradient: f(t, gradient=g),  # type: ignore[misc]
        }
        for way, function in ways.items():
            measure = partial(lambda f, t: {"gpu_ms": gpu_ms(f, [t], budget_s=0.2)}, function, t)
            results.append({"ranking": way, "rows": label, **attempt(f"ranking {way}, {label}", measure)})
    return results
