"""The gate's kernels against PyTorch, in Triton's interpreter or, where there is one, on the GPU."""

import os

import pytest
import torch
import torch.utils.checkpoint

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("test_triton_interpreter.py runs these in a process of their own", allow_module_level=True)

from enlcn.ops.gate import can_run, gate, naive
from enlcn.ops.gate.launch import backward, forward, in_planes
from enlcn.ops.gate.operators import gate_backward_operator, gate_operator

DEVICE = "cpu" if INTERPRETED else "cuda"
# In bfloat16 weights are rounded, and the gate's gradient on its way; the interpreter cuts where a GPU rounds.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
SHAPES = [(2, 5, 6, 20, 7), (1, 3, 9, 3, 5), (1, 2, 1, 33, 3), (3, 2, 37, 5, 7), (1, 2, 4, 4, 1), (1, 2, 11, 40, 9)]


def image(*shape, dtype=torch.float32):
    return in_planes(torch.randn(shape, device=DEVICE).to(dtype))


def off(found, expected):
    return ((found.double() - expected).norm() / expected.norm().clamp_min(1e-9)).item()


def leaves_of(channels, height, width, side, *, batch=1, dtype=torch.float32):
    expanded = image(batch, 2 * channels, height, width, dtype=dtype).requires_grad_()
    weight = torch.randn(channels, 1, side, side, device=DEVICE, requires_grad=True)
    offset, bias = (torch.randn(channels, device=DEVICE, requires_grad=True) for _ in range(2))
    return expanded, offset, weight, bias


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("batch", "channels", "height", "width", "side"), SHAPES)
def test_values_and_gradients_equal_pytorchs(batch, channels, height, width, side, dtype):
    torch.manual_seed(0)
    leaves = leaves_of(channels, height, width, side, batch=batch, dtype=dtype)
    assert can_run(leaves[0], leaves[2])
    out = gate(*leaves, backend="triton")
    gradient = image(batch, channels, height, width, dtype=dtype)
    found = torch.autograd.grad(out, leaves, gradient)

    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = naive(*exact)
    assert out.dtype == dtype
    assert out.transpose(0, 1).is_contiguous()
    assert off(out, expected) < TOLERANCE[dtype]
    for leaf, ours, theirs in zip(leaves, found, torch.autograd.grad(expected, exact, gradient.double()), strict=True):
        assert ours.dtype == leaf.dtype
        assert off(ours, theirs) < TOLERANCE[dtype]


@pytest.mark.parametrize("strips", [1, 2, 5, 23])
def test_every_division_gives_the_same(strips):
    torch.manual_seed(0)
    leaves = [leaf.detach() for leaf in leaves_of(2, 23, 11, 5, batch=2)]
    gradient = image(2, 2, 23, 11)
    out, kept = forward(*leaves, keeps=True, strips=strips)
    of_expanded, of_shifts, of_weight = backward(gradient, leaves[0], kept, *leaves[1:3], strips=strips)
    found = (out, of_expanded, of_shifts[:, 0], of_weight.view(leaves[2].shape), of_shifts[:, 1])
    exact = [leaf.double().requires_grad_() for leaf in leaves]
    expected = naive(*exact)
    theirs = (expected, *torch.autograd.grad(expected, exact, gradient.double()))
    for ours, wanted in zip(found, theirs, strict=True):
        assert off(ours, wanted) < TOLERANCE[torch.float32]


def test_other_memory_orders_are_taken():
    _, *weights = leaves_of(6, 6, 11, 5)
    wide = torch.randn(2, 24, 6, 11, device=DEVICE)
    last = wide.contiguous(memory_format=torch.channels_last)
    for x in (*wide.chunk(2, dim=1), wide[:, ::2], last[:, :12], wide[:, :12, 1:], wide[:, :12, :, ::2]):
        gradients = []
        for backend in ("triton", "naive"):
            leaf = x.detach().requires_grad_()
            out = gate(leaf, *weights, backend=backend)
            gradients += [(out, *torch.autograd.grad(out.square().sum(), [leaf, *weights]))]
        for ours, theirs in zip(*gradients, strict=True):
            assert off(ours, theirs.double()) < 1e-5


def test_weights_lie_as_they_like():
    expanded, offset, weight, bias = (leaf.detach() for leaf in leaves_of(6, 5, 9, 3))
    spaced = torch.stack([offset, bias, offset], dim=1)
    found = gate(expanded, spaced[:, 0], weight.transpose(-1, -2).contiguous().transpose(-1, -2), spaced[:, 1])
    assert torch.equal(found, gate(expanded, offset, weight, bias))
    ones = torch.ones(1, device=DEVICE).expand(6)
    assert torch.equal(gate(expanded, ones, weight, ones), gate(expanded, ones.clone(), weight, ones.clone()))


@pytest.mark.parametrize("backend", ["auto", "triton"])
def test_sizes_that_do_not_belong_together_are_refused(backend):
    expanded, offset, weight, bias = (leaf.detach() for leaf in leaves_of(6, 5, 9, 3))
    for wrong in (
        (expanded[:, 1:], offset, weight, bias),
        (expanded, offset[1:], weight, bias),
        (expanded, offset, weight, bias[1:]),
        (expanded, offset, weight[:, :, :2, :2], bias),
        (expanded, offset, weight[:, :, :1], bias),
    ):
        with pytest.raises(ValueError, match=r"must be \(B, 2J, H, W\), .* with K odd"):
            gate(*wrong, backend=backend)


def test_kernels_that_are_asked_for_and_cannot_run_say_so():
    expanded, offset, weight, bias = (leaf.detach() for leaf in leaves_of(6, 5, 9, 11))
    with pytest.raises(ValueError, match=r"K up to 9, .*K = 11"):
        gate(expanded, offset, weight, bias, backend="triton")
    with pytest.raises(ValueError, match=r"not \(0, 12, 5, 9\)"):
        gate(expanded[:0], offset, weight[:, :, :3, :3], bias, backend="triton")


def gradients_of(leaves, backend="triton"):
    out = gate(*leaves, backend=backend)
    return torch.autograd.grad(out.square().sum(), leaves)


def test_saved_tensors_may_be_packed_and_recomputed():
    torch.manual_seed(0)
    leaves = leaves_of(4, 5, 9, 5, batch=2)
    expected = gradients_of(leaves)
    in_rows = torch.autograd.graph.saved_tensors_hooks(lambda t: t.contiguous(), lambda t: t)
    with in_rows:
        found = gradients_of(leaves)
    out = torch.utils.checkpoint.checkpoint(lambda *x: gate(*x, backend="triton"), *leaves, use_reentrant=False)
    again = torch.autograd.grad(out.square().sum(), leaves)
    for ours, theirs, once_more in zip(expected, found, again, strict=True):
        assert torch.equal(ours, theirs)
        assert torch.equal(ours, once_more)


def test_gradients_can_be_differentiated_again():
    torch.manual_seed(0)
    leaves = leaves_of(3, 5, 9, 3)
    penalties = []
    for backend in ("triton", "naive"):
        out = gate(*leaves, backend=backend)
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        penalty = sum(each.square().sum() for each in first)
        penalties.append(torch.autograd.grad(penalty, leaves))
    for ours, theirs in zip(*penalties, strict=True):
        assert off(ours, theirs.double()) < 1e-5


def test_without_what_it_keeps_there_is_no_gradient():
    out, _ = gate_operator(*leaves_of(3, 5, 9, 3), keeps=False)
    with pytest.raises(RuntimeError, match="keeps=False"):
        out.sum().backward()


def test_nothing_beyond_the_edges_is_read_or_written():
    """What lies around a channel's lines in memory is NaN, and stays it."""
    room = torch.full((22, 3, 7, 5), float("nan"), device=DEVICE)
    room[1:21, 1] = torch.randn(20, 7, 5, device=DEVICE)
    expanded = room[1:21, 1:2].transpose(0, 1)
    _, offset, weight, bias = leaves_of(10, 7, 5, 7)
    out, kept = forward(expanded, offset, weight, bias, keeps=True)
    assert out.isfinite().all()
    found = backward(expanded[:, :10], expanded, kept, offset, weight)
    assert all(values.isfinite().all() for values in found)
    assert room.isnan().sum() == room.numel() - 20 * 7 * 5


def test_what_is_not_learned_is_not_kept():
    leaves = leaves_of(8, 6, 6, 3)
    with torch.no_grad():
        assert gate_operator(*leaves, keeps=False)[1].numel() == 0
        assert torch.equal(gate(*leaves, backend="triton"), gate_operator(*leaves, keeps=True)[0])


def test_without_an_offset_nothing_is_added():
    expanded, _, weight, bias = (leaf.detach() for leaf in leaves_of(3, 6, 6, 3))
    nothing = torch.zeros(3, device=DEVICE)
    expected = gate(expanded, nothing, weight, bias, backend="triton")
    assert torch.equal(gate(expanded, None, weight, bias, backend="triton"), expected)
    assert off(naive(expanded, None, weight, bias), expected.double()) < 1e-5


def test_compilers_are_told_the_right_shapes_and_strides():
    wide, (_, offset, weight, bias) = image(2, 24, 6, 11), leaves_of(6, 6, 11, 5)
    for x in (wide.chunk(2, dim=1)[1], wide[:, :12].contiguous()):
        torch.library.opcheck(gate_operator, (x.detach().requires_grad_(), offset, weight, bias, True))
        torch.library.opcheck(gate_operator, (x, *(each.detach() for each in (offset, weight, bias)), False))
        kept = gate_operator(x, *(each.detach() for each in (offset, weight, bias)), True)[1]
        gradient = image(2, 6, 6, 11)
        torch.library.opcheck(gate_backward_operator, (gradient, x, kept, offset.detach(), weight.detach()))
