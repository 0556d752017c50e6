"""The depthwise convolution's kernels beside PyTorch's own, and beside each other in other tilings, on a GPU.

    python benchmarks/depthwise.py                     # 64 x 96 channels x 48 x 48, 7x7, bf16, as enlcn-gated trains
    python benchmarks/depthwise.py --tilings           # ... and every tiling of both kernels, the best first
    python benchmarks/depthwise.py --tiny              # on a CPU; with TRITON_INTERPRET=1 the kernels, too

Each is checked against float64 first. A floor is given, too: every number read and written once, at the rate of a copy.
"""

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product, starmap

import torch
from gpu_timing import attempt, gpu_ms, num_sets, relative_error
from torch import Tensor

from enlcn.ops.depthwise import can_run, depthwise, naive

LIMIT = 1e-2  # of bf16's relative error


def images(shape: tuple[int, ...], device: str, count: int) -> list[Tensor]:
    """Noise, channels_last, bf16 on a GPU."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    made = (torch.randn(shape, device=device).to(dtype) for _ in range(count))
    return [image.contiguous(memory_format=torch.channels_last) for image in made]


def timed(label: str, function: Callable[[Tensor], object], inputs: list[Tensor]) -> float:
    """Milliseconds of GPU time, printed; infinite where it fails."""
    return float(attempt(label, lambda: {"ms": gpu_ms(function, inputs)}).get("ms", float("inf")))


def gradients(x: Tensor, weight: Tensor, backend: str) -> tuple[Tensor, ...]:
    """Of the sum of squares, with respect to x and weight: forward and backward once."""
    x, weight = x.detach().requires_grad_(), weight.detach().requires_grad_()
    out = depthwise(x, weight.to(x.dtype), None, backend=backend)
    return torch.autograd.grad(out, [x, weight], out.detach())


def compare(shape: tuple[int, ...], side: int, device: str) -> None:
    """Both backends, forward, and forward and backward."""
    one = images(shape, device, 1)[0]
    inputs = images(shape, device, num_sets(one.numel() * one.element_size()))
    weight = torch.randn(shape[1], 1, side, side, device=device).to(one.dtype)
    expected = naive(one.double(), weight.double(), None)
    for backend in ("naive", "triton"):
        if backend == "triton" and not can_run(one, weight):
            print("the kernels do not run here")
            continue
        forward = partial(depthwise, weight=weight, bias=None, backend=backend)
        error = relative_error(forward(one), expected)
        assert error < LIMIT, f"{backend} is {error:.2g} off float64"
        timed(f"{backend}: forward", forward, inputs)
        timed(f"{backend}: forward and backward", partial(gradients, weight=weight, backend=backend), inputs)
    timed("copy: the floor of forward", torch.clone, inputs)


def sweep(shape: tuple[int, ...], side: int, device: str) -> None:
    """Every tiling of both kernels."""
    from enlcn.ops.depthwise.triton_depthwise import Tiling, convolve, weight_gradient

    inputs = images(shape, device, 4)
    weight = torch.randn(shape[1], 1, side, side, device=device)
    sizes = ((1, 2, 4, 8), (8, 16, 32), (32, 64, 128), (4, 8)) if device == "cuda" else ((1, 2), (16,), (32,), (4,))
    times: dict[str, float] = {}
    for tiling in starmap(Tiling, product(*sizes)):
        if 256 <= tiling.rows * tiling.columns * tiling.channels <= 16384:
            label = f"convolve {tiling}"
            times[label] = timed(label, partial(convolve, weight=weight, bias=None, tiling=tiling), inputs)
        if tiling.rows == 1:
            label = f"weight {tiling}"
            times[label] = timed(label, partial(weight_gradient, gradient=inputs[0], side=side, tiling=tiling), inputs)
    for kind in ("convolve", "weight"):
        best = sorted((time, label) for label, time in times.items() if label.startswith(kind))[:5]
        print("\n".join(f"{label}: {time:.4f} ms" for time, label in best))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=4, default=(64, 96, 48, 48), metavar=("B", "C", "H", "W"))
    parser.add_argument("--kernel", type=int, default=7)
    parser.add_argument("--tilings", action="store_true", help="time every tiling, too")
    parser.add_argument("--tiny", action="store_true", help="a small shape on a CPU")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        parser.error("needs a GPU; --tiny tries it on a CPU")
    device = "cpu" if options.tiny else "cuda"
    shape = (1, 8, 12, 12) if options.tiny else tuple(options.shape)
    compare(shape, options.kernel, device)
    if options.tilings:
        sweep(shape, options.kernel, device)


if __name__ == "__main__":
    main()
