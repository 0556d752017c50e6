"""The gate's kernels beside PyTorch's convolution, and beside each other in other tilings, on a GPU.

    python benchmarks/gate.py                     # 64 x 96 channels x 48 x 48, 7x7, bf16, as enlcn-gated trains
    python benchmarks/gate.py --tilings           # ... and other tilings of both kernels, the best first
    python benchmarks/gate.py --tiny              # on a CPU; with TRITON_INTERPRET=1 the kernels, too

Each is checked against float64 first. A floor is given, too: every number read and written once, at the rate of a copy.
"""

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product

import torch
from gpu_timing import attempt, gpu_ms, num_sets, relative_error
from torch import Tensor

from enlcn.ops.gate import can_run, gate, naive

LIMIT = 1e-2  # of bf16's relative error


def images(shape: tuple[int, ...], device: str, count: int) -> list[Tensor]:
    """Noise, channels_last, bf16 on a GPU."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    made = (torch.randn(shape, device=device).to(dtype) for _ in range(count))
    return [image.contiguous(memory_format=torch.channels_last) for image in made]


def timed(label: str, function: Callable[[Tensor], object], inputs: list[Tensor]) -> float:
    """Milliseconds of GPU time, printed; infinite where it fails."""
    return float(attempt(label, lambda: {"ms": gpu_ms(function, inputs)}).get("ms", float("inf")))


def gradients(expanded: Tensor, weight: Tensor, bias: Tensor, backend: str) -> tuple[Tensor, ...]:
    """Of half the sum of squares, with respect to all three: forward and backward once."""
    leaves = expanded, weight, bias = [tensor.detach().requires_grad_() for tensor in (expanded, weight, bias)]
    out = gate(expanded, weight, bias, backend=backend)
    return torch.autograd.grad(out, leaves, out.detach())


def compare(expanded: list[Tensor], weight: Tensor, bias: Tensor) -> None:
    """Both backends, forward, and forward and backward."""
    exact = expanded[0].double(), weight.double(), bias.double()
    expected = naive(*exact), *gradients(*exact, "naive")
    for backend in ("naive", "triton"):
        if backend == "triton" and not can_run(expanded[0], weight):
            print("the kernels do not run here")
            continue
        forward = partial(gate, weight=weight, bias=bias, backend=backend)
        found = forward(expanded[0]), *gradients(expanded[0], weight, bias, backend)
        errors = [relative_error(ours, theirs) for ours, theirs in zip(found, expected, strict=True)]
        assert max(errors) < LIMIT, f"{backend} is off float64 by {errors}"
        timed(f"{backend}: forward", forward, expanded)
        both = partial(gradients, weight=weight, bias=bias, backend=backend)
        timed(f"{backend}: forward and backward", both, expanded)
    timed("copy of said and heard: more than the floor of forward", torch.clone, expanded)


def sweep(expanded: list[Tensor], weight: Tensor, bias: Tensor, *, tiny: bool) -> None:
    """Tilings of both kernels; a backward pass has a `spread`, as it is used, in it, too."""
    from enlcn.ops.gate.triton_gate import Tiling, backward, forward

    out, kept = forward(expanded[0], weight, bias, keeps=True)
    times: dict[str, float] = {}
    if tiny:
        forwards, backwards = [Tiling(2, 16, 32, 2)], [Tiling(2, 16, 32, 4, 4)]
    else:
        forwards = [Tiling(rows, 8 * warps, 32, warps) for rows, warps in product((4, 6, 8, 12), (1, 2, 4))]
        backwards = [Tiling(rows, 8, 32, 4, shifts) for rows, shifts in ((6, 7), (8, 7), (8, 4))]
        backwards += [Tiling(rows, 16, 32, 4, shifts) for rows, shifts in product((6, 8, 12), (3, 4))]
        backwards += [Tiling(8, 32, 32, 4, 2), Tiling(8, 32, 32, 8, 4)]
    for tiling in forwards:
        run = partial(forward, weight=weight, bias=bias, keeps=True, tiling=tiling)
        times[f"forward {tiling}"] = timed(f"forward {tiling}", run, expanded)
    for tiling in backwards:
        back = partial(_back, out=out, kept=kept, weight=weight, run=partial(backward, tiling=tiling))
        times[f"backward {tiling}"] = timed(f"backward {tiling}", back, expanded)
    for kind in ("forward", "backward"):
        best = sorted((time, label) for label, time in times.items() if label.startswith(kind))[:5]
        print("\n".join(f"{label}: {time:.4f} ms" for time, label in best))


def _back(expanded: Tensor, out: Tensor, kept: Tensor, weight: Tensor, run: Callable[..., object]) -> object:
    return run(out, expanded, kept, weight)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=4, default=(64, 96, 48, 48), metavar=("B", "J", "H", "W"))
    parser.add_argument("--kernel", type=int, default=7)
    parser.add_argument("--tilings", action="store_true", help="time other tilings, too")
    parser.add_argument("--tiny", action="store_true", help="a small shape on a CPU")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        parser.error("needs a GPU; --tiny tries it on a CPU")
    device = "cpu" if options.tiny else "cuda"
    batch, channels, height, width = (1, 8, 12, 12) if options.tiny else options.shape
    shape = (batch, 2 * channels, height, width)
    expanded = images(shape, device, 1)
    expanded += images(shape, device, num_sets(expanded[0].numel() * expanded[0].element_size()) - 1)
    weight = torch.randn(channels, 1, options.kernel, options.kernel, device=device).to(expanded[0].dtype)
    bias = torch.randn(channels, device=device).to(weight.dtype)
    compare(expanded, weight, bias)
    if options.tilings:
        sweep(expanded, weight, bias, tiny=options.tiny)


if __name__ == "__main__":
    main()
