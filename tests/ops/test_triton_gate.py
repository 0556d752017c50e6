"""The gate's kernels against PyTorch, in Triton's interpreter or, where there is one, on the GPU."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("test_triton_interpreter.py runs these in a process of their own", allow_module_level=True)

from enlcn.ops.gate import can_run, gate, naive
from enlcn.ops.gate.operators import gate_backward_operator, gate_operator
from enlcn.ops.gate.triton_gate import Tiling, backward, forward

DEVICE = "cpu" if INTERPRETED else "cuda"
# In bfloat16 the gate's gradient is rounded on its way; the interpreter cuts where a GPU rounds.
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
SHAPES = [(2, 16, 6, 20, 7), (1, 70, 9, 3, 5), (1, 3, 1, 33, 3), (2, 33, 17, 5, 7), (1, 8, 4, 4, 1)]


def image(*shape, dtype=torch.float32):
    values = torch.randn(shape, device=DEVICE).to(dtype)
    return values.contiguous(memory_format=torch.channels_last)


def off(found, expected):
    return ((found.double() - expected).norm() / expected.norm().clamp_min(1e-9)).item()


def leaves_of(channels, height, width, side, *, batch=1, dtype=torch.float32):
    expanded = image(batch, 2 * channels, height, width, dtype=dtype).requires_grad_()
    weight = torch.randn(channels, 1, side, side, device=DEVICE, requires_grad=True)
    return expanded, weight, torch.randn(channels, device=DEVICE, requires_grad=True)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("batch", "channels", "height", "width", "side"), SHAPES)
def test_values_and_gradients_equal_pytorchs(batch, channels, height, width, side, dtype):
    torch.manual_seed(0)
    leaves = leaves_of(channels, height, width, side, batch=batch, dtype=dtype)
    assert can_run(*leaves[:2])
    out = gate(*leaves, backend="triton")
    gradient = image(batch, channels, height, width, dtype=dtype)
    found = torch.autograd.grad(out, leaves, gradient)

    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = naive(*exact)
    assert out.dtype == dtype
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert off(out, expected) < TOLERANCE[dtype]
    for leaf, ours, theirs in zip(leaves, found, torch.autograd.grad(expected, exact, gradient.double()), strict=True):
        assert ours.dtype == leaf.dtype
        assert off(ours, theirs) < TOLERANCE[dtype]


@pytest.mark.parametrize("tiling", [Tiling(2, 4, 8, 1, 2), Tiling(3, 8, 16, 4, 7), Tiling(8, 16, 32, 4, 3)])
def test_every_tiling_gives_the_same(tiling):
    torch.manual_seed(0)
    leaves = [leaf.detach() for leaf in leaves_of(20, 7, 11, 5, batch=2)]
    gradient = image(2, 20, 7, 11)
    out, kept = forward(*leaves, keeps=True, tiling=tiling)
    of_expanded, sums = backward(gradient, leaves[0], kept, leaves[1], tiling=tiling, spread=tiling)
    found = (out, of_expanded, sums[:-1].t().reshape(leaves[1].shape), sums[-1])
    exact = [leaf.double().requires_grad_() for leaf in leaves]
    expected = naive(*exact)
    theirs = (expected, *torch.autograd.grad(expected, exact, gradient.double()))
    for ours, wanted in zip(found, theirs, strict=True):
        assert off(ours, wanted) < TOLERANCE[torch.float32]


def test_other_memory_orders_are_taken():
    _, weight, bias = leaves_of(6, 6, 11, 5)
    wide = image(2, 24, 6, 11)
    for x in (*wide.chunk(2, dim=1), wide[:, ::2], wide[:, :12].contiguous(), wide[:, :12, 1:], wide[:, :12, :, ::2]):
        gradients = []
        for backend in ("triton", "naive"):
            leaf = x.detach().requires_grad_()
            out = gate(leaf, weight, bias, backend=backend)
            gradients += [(out, *torch.autograd.grad(out.square().sum(), [leaf, weight, bias]))]
        for ours, theirs in zip(*gradients, strict=True):
            assert off(ours, theirs.double()) < 1e-5


def test_nothing_beyond_the_edges_is_read_or_written():
    """What lies around the images in memory is NaN, and stays it."""
    room = torch.full((3, 20, 7, 5), float("nan"), device=DEVICE).to(memory_format=torch.channels_last)
    room[1] = torch.randn(20, 7, 5, device=DEVICE)
    weight, bias = torch.randn(10, 1, 7, 7, device=DEVICE), torch.randn(10, device=DEVICE)
    out, kept = forward(room[1:2], weight, bias, keeps=True)
    assert out.isfinite().all()
    found = backward(room[1:2, :10].contiguous(memory_format=torch.channels_last), room[1:2], kept, weight)
    assert all(values.isfinite().all() for values in found)


def test_what_is_not_learned_is_not_kept():
    leaves = leaves_of(8, 6, 6, 3)
    with torch.no_grad():
        assert gate_operator(*leaves, keeps=False)[1].numel() == 0
        assert torch.equal(gate(*leaves, backend="triton"), gate_operator(*leaves, keeps=True)[0])


def test_compilers_are_told_the_right_shapes_and_strides():
    wide, (_, weight, bias) = image(2, 24, 6, 11), leaves_of(6, 6, 11, 5)
    for x in (wide.chunk(2, dim=1)[1], wide[:, :12].contiguous()):
        torch.library.opcheck(gate_operator, (x.detach().requires_grad_(), weight, bias, True))
        torch.library.opcheck(gate_operator, (x, weight.detach(), bias.detach(), False))
        kept = gate_operator(x, weight.detach(), bias.detach(), True)[1]
        torch.library.opcheck(gate_backward_operator, (image(2, 6, 6, 11), x, kept, weight.detach()))
