"""The gate's kernels beside PyTorch's convolution, and with images in other numbers of strips, on a GPU.

    python benchmarks/gate.py                     # 64 x 128 channels x 48 x 48, 7x7, bf16, as enlcn-gated trains
    python benchmarks/gate.py --strips 1,2,4      # ... and so many strips an image
    python benchmarks/gate.py --tiny              # on a CPU; with TRITON_INTERPRET=1 the kernels, too

Each is checked against float64 first. A floor is given, too: every number read and written once, at the rate of a copy.
"""

import argparse
from collections.abc import Callable
from functools import partial

import torch
from gpu_timing import attempt, gpu_ms, num_sets, relative_error
from torch import Tensor

from enlcn.ops.gate import can_run, gate, naive

LIMIT = 1e-2  # of bf16's relative error


def images(batch: int, channels: int, height: int, width: int, device: str, count: int) -> list[Tensor]:
    """Noise, each channel of all images in one piece, bf16 on a GPU."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    shape = (channels, batch, height, width)
    return [torch.randn(shape, device=device).to(dtype).transpose(0, 1) for _ in range(count)]


def timed(label: str, function: Callable[[Tensor], object], inputs: list[Tensor]) -> float:
    """Milliseconds of GPU time, printed; infinite where it fails."""
    return float(attempt(label, lambda: {"ms": gpu_ms(function, inputs)}).get("ms", float("inf")))


def gradients(expanded: Tensor, *weights: Tensor, backend: str) -> tuple[Tensor, ...]:
    """Of half the sum of squares, with respect to all four: forward and backward once."""
    leaves = [tensor.detach().requires_grad_() for tensor in (expanded, *weights)]
    out = gate(*leaves, backend=backend)
    return torch.autograd.grad(out, leaves, out.detach())


def compare(expanded: list[Tensor], weights: list[Tensor]) -> None:
    """Both backends, forward, and forward and backward."""
    exact = [tensor.double() for tensor in (expanded[0], *weights)]
    expected = naive(*exact), *gradients(*exact, backend="naive")
    for backend in ("naive", "triton"):
        if backend == "triton" and not can_run(expanded[0], weights[1]):
            print("the kernels do not run here")
            continue
        forward = lambda x, b=backend: gate(x, *weights, backend=b)  # noqa: E731
        both = lambda x, b=backend: gradients(x, *weights, backend=b)  # noqa: E731
        found = forward(expanded[0]), *both(expanded[0])
        errors = [relative_error(ours, theirs) for ours, theirs in zip(found, expected, strict=True)]
        assert max(errors) < LIMIT, f"{backend} is off float64 by {errors}"
        timed(f"{backend}: forward", forward, expanded)
        timed(f"{backend}: forward and backward", both, expanded)
    timed("copy of said and heard: about the floor of forward", torch.clone, expanded)


def sweep(expanded: list[Tensor], weights: list[Tensor], numbers: list[int]) -> None:
    """Both kernels with images in so many strips; a backward pass has a `spread` in it, too."""
    from enlcn.ops.gate.launch import backward, forward

    out, kept = forward(expanded[0], *weights, keeps=True)
    for strips in numbers:
        run = partial(_forth, weights=weights, strips=strips, run=forward)
        timed(f"forward, {strips} strips", run, expanded)
        back = partial(_back, out=out, kept=kept, weights=weights, strips=strips, run=backward)
        timed(f"backward, {strips} strips", back, expanded)


def _forth(expanded: Tensor, weights: list[Tensor], strips: int, run: Callable[..., object]) -> object:
    return run(expanded, *weights, keeps=True, strips=strips)


def _back(
    expanded: Tensor, out: Tensor, kept: Tensor, weights: list[Tensor], strips: int, run: Callable[..., object]
) -> object:
    return run(out, expanded, kept, *weights[:2], strips=strips)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", type=int, nargs=4, default=(64, 128, 48, 48), metavar=("B", "J", "H", "W"))
    parser.add_argument("--kernel", type=int, default=7)
    parser.add_argument("--strips", metavar="N,N", help="time other numbers of strips, too")
    parser.add_argument("--tiny", action="store_true", help="a small shape on a CPU")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        parser.error("needs a GPU; --tiny tries it on a CPU")
    device = "cpu" if options.tiny else "cuda"
    batch, channels, height, width = (2, 4, 12, 12) if options.tiny else options.shape
    make = partial(images, batch, 2 * channels, height, width, device)
    expanded = make(1)
    expanded += make(num_sets(expanded[0].numel() * expanded[0].element_size()) - 1 if not options.tiny else 0)
    weight = torch.randn(channels, 1, options.kernel, options.kernel, device=device).to(expanded[0].dtype)
    offset, bias = torch.randn(2, channels, device=device).to(weight.dtype)
    weights = [offset, weight, bias]
    compare(expanded, weights)
    if options.strips:
        sweep(expanded, weights, [int(number) for number in options.strips.split(",")])


if __name__ == "__main__":
    main()
