"""The ENLCA module and its rivals at growing sizes, its passes one by one under other tilings, and 4096 x 4096."""

import copy
from collections.abc import Callable
from functools import partial

import torch
from gpu_contenders import build_module, contenders, draw, in_dtype
from gpu_timing import Result, attempt, event_ms, gpu_ms, num_sets, relative_error, wall_ms
from torch import Tensor, nn

from enlcn.models.attention import ENLCA
from enlcn.ops.enlca import launch, naive, triton_forward
from enlcn.ops.enlca.launch import Sizes, Tiling
from enlcn.ops.linear_attention import chunked

SIZES = (100, 150, 256, 512, 1024)
CHANNELS, FEATURES = 256, 128
# Above these sizes a contender takes seconds a call, or all memory.
LARGEST = {"sdpa": {torch.bfloat16: 512, torch.float32: 256}, "nlsa": {torch.bfloat16: 1024, torch.float32: 512}}


def ceilings(device: torch.device, *, tiny: bool) -> list[Result]:
    """What the card can do: a copy (bytes read and written) and a bfloat16 matrix product, on random data."""

    def copy() -> Result:
        source = torch.randn(1 << (12 if tiny else 30), device=device)
        target = torch.empty_like(source)
        ms = gpu_ms(lambda x: target.copy_(x), [source])
        return {"ms": ms, "tb_per_s": 2 * source.nbytes / ms / 1e9}

    def product() -> Result:
        n = 64 if tiny else 8192
        a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
        ms = gpu_ms(lambda x: x @ b, [a])
        return {"ms": ms, "tflop_per_s": 2 * n**3 / ms / 1e9}

    return [attempt("copy", copy), attempt("bf16 product", product)]


def module_times(device: torch.device, names: list[str], *, tiny: bool) -> list[Result]:
    """GPU time, wall time and error of each contender at each size, in both precisions."""
    channels, features = (32, 16) if tiny else (CHANNELS, FEATURES)
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        everyone = contenders(channels, features, dtype, device)
        for name in names:
            for size in (6, 8) if tiny else SIZES:
                if size > LARGEST.get(name, {}).get(dtype, size):
                    continue
                label = f"{name} {str(dtype)[6:]} {size}x{size}"
                measure = partial(_measure, name, everyone[name], size, channels, dtype, device)
                entry = {"contender": name, "dtype": str(dtype)[6:], "size": size}
                results.append({**entry, **attempt(label, measure)})
    return results


@torch.no_grad()
def _measure(
    name: str,
    function: Callable[[Tensor], Tensor],
    size: int,
    channels: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Result:
    # Each contender gets the layout it likes; the published module's view() needs plain NCHW.
    last = name in ("ours", "conv3x3", "sdpa")
    sets = num_sets(size * size * channels * dtype.itemsize)
    inputs = [draw(size, channels, dtype, device, channels_last=last) for _ in range(sets)]
    result: Result = {"gpu_ms": gpu_ms(function, inputs), "wall_ms": wall_ms(function, inputs[0])}
    if name == "ours":
        assert isinstance(function, ENLCA)
        result |= _module_errors(function, inputs[0])
    return result


def _module_errors(module: ENLCA, x: Tensor) -> Result:
    """Against the equations in float64, on the very numbers the module holds."""
    wide = x.double()
    exact = copy.deepcopy(module).double()
    exact.backend = "naive"
    expected, out = exact(wide), module(x)
    return {
        "error": relative_error(out, expected),
        "y_error": relative_error(out.double() - wide, expected - wide),
        "bit_equal": torch.equal(out, module(x)),
    }


def passes(device: torch.device, *, tiny: bool) -> list[Result]:
    """Each kernel of the module alone, pass 1 and pass 2 under several tilings: where the time goes."""
    channels, features = (32, 16) if tiny else (CHANNELS, FEATURES)
    results = []
    for dtype in (torch.bfloat16, torch.float32):
        for size in (8,) if tiny else (100, 256, 1024):
            for label, measure in _pass_measurements(size, channels, features, dtype, device, tiny):
                results.append(attempt(f"{label} {str(dtype)[6:]} {size}x{size}", measure))
    return results


def _pass_measurements(
    size: int, channels: int, features: int, dtype: torch.dtype, device: torch.device, tiny: bool
) -> list[tuple[str, Callable[[], Result]]]:
    module = in_dtype(build_module(channels, features, device), dtype)
    assert module.query.bias is not None
    assert module.key.bias is not None
    assert module.value.bias is not None
    query, key = module.query.weight.flatten(1), module.key.weight.flatten(1)
    value, proj = module.value.weight.flatten(1), module.projection
    biases = (module.query.bias, module.key.bias, module.value.bias)
    sizes = Sizes(channels, query.shape[0], features)
    inputs = [draw(size, channels, dtype, device) for _ in range(num_sets(size * size * channels * dtype.itemsize))]
    out = torch.empty_like(inputs[0])
    state = triton_forward.summarise(inputs[0], key, biases[1], proj, 6.0, 0.0)
    operand = launch.operand_dtype(dtype)
    values = triton_forward.mean_values(state, value, biases[2], features, 0.1, operand)

    def summarise(x: Tensor, tiling: Tiling) -> Tensor:
        return triton_forward.summarise(x, key, biases[1], proj, 6.0, 0.0, [tiling])

    def apply(x: Tensor, tiling: Tiling) -> None:
        triton_forward.apply_into(out, x, query, biases[0], proj, state, values, 6.0, 0.0, [tiling])

    def values_of(x: Tensor) -> Tensor:
        return triton_forward.mean_values(state, value, biases[2], features, 0.1, operand)

    def timed(function: Callable[[Tensor], object]) -> Result:
        return {"gpu_ms": gpu_ms(function, inputs, budget_s=0.2)}

    first_tilings = launch.summarise_tilings(sizes, dtype)[:1]
    second_tilings = launch.apply_tilings(sizes, dtype)[:1]
    if dtype == torch.bfloat16 and not tiny and size != 100:
        first_tilings += [Tiling(64, 256, 8, 3), Tiling(128, 256, 8, 1), Tiling(64, 128, 8, 3), Tiling(128, 128, 8)]
        second_tilings += [
            Tiling(128, 64, 8),
            Tiling(128, 128, 8),
            Tiling(64, 64, 4, per_multiprocessor=2),
            Tiling(64, 128, 8, 2, hold=True),
            Tiling(128, 256, 8, hold=True),
        ]
    elif not tiny and size != 100:
        first_tilings += [Tiling(32, 128, 8), Tiling(64, 64, 8)]
        second_tilings += [Tiling(32, 64, 8), Tiling(32, 64, 4)]
    measurements: list[tuple[str, Callable[[], Result]]] = [("mean values", partial(timed, values_of))]
    measurements += [(f"pass 1 and its sum {t}", partial(timed, partial(summarise, tiling=t))) for t in first_tilings]
    measurements += [(f"pass 2 {t}", partial(timed, partial(apply, tiling=t))) for t in second_tilings]
    return measurements


def big(device: torch.device, *, tiny: bool) -> list[Result]:
    """4096 x 4096 in one call: 2^32 numbers, so offsets pass 32 bits; time, peak memory, and the chunked version."""
    return [
        attempt(f"4096x4096 {name}", partial(_big, device, last, tiny))
        for name, last in (("channels_last", True), ("contiguous", False))
    ]


@torch.no_grad()
def _big(device: torch.device, channels_last: bool, tiny: bool) -> Result:
    size, channels, features = (16, 32, 16) if tiny else (4096, CHANNELS, FEATURES)
    module = in_dtype(build_module(channels, features, device), torch.bfloat16)
    x = torch.empty(1, channels, size, size, device=device, dtype=torch.bfloat16)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    x.normal_()
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    out = module(x)
    peak = torch.cuda.max_memory_allocated() if cuda else 0
    ms = event_ms(lambda: module(x), budget_s=1.0) if cuda else wall_ms(module, x)
    error = _error_in_slabs(module, x, out)
    return {"ok": error < 1e-2, "gpu_ms": ms, "peak_gb": peak / 1e9, "input_gb": x.nbytes / 1e9, "error": error}


def _error_in_slabs(module: ENLCA, x: Tensor, out: Tensor) -> float:
    """Against the chunked version in float32, a few rows at a time: no tensor of x's size but x and out is made."""
    slabs = [slice(row, row + 64) for row in range(0, x.shape[2], 64)]

    def project(rows: slice, convolution: nn.Conv2d) -> tuple[Tensor, Tensor]:
        tokens = x[:, :, rows].float().flatten(2).mT.contiguous()  # (1, n, C)
        assert convolution.bias is not None
        return tokens, naive.unit_length(tokens, convolution.weight.flatten(1), convolution.bias) * 6.0**0.5

    kx = z = torch.zeros((), dtype=torch.float64, device=x.device)
    for rows in slabs:
        tokens, k = project(rows, module.key)
        kx_part, z_part = chunked.summarise(k, tokens, module.projection)
        kx, z = kx + kx_part.double(), z + z_part.double()
    kv = module.project_summary(kx.float(), z.float())
    difference = square = torch.zeros((), dtype=torch.float64, device=x.device)
    for rows in slabs:
        tokens, q = project(rows, module.query)
        expected = tokens + module.res_scale * chunked.apply(q, kv, z.float(), module.projection)
        got = out[:, :, rows].float().flatten(2).mT
        difference = difference + (got - expected).square().sum(dtype=torch.float64)
        square = square + expected.square().sum(dtype=torch.float64)
    return (difference / square).sqrt().item()
