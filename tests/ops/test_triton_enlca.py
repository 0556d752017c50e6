"""The ENLCA kernels against the equations, in Triton's interpreter or, where there is one, on the GPU."""

import gc
import os
import weakref
from collections import defaultdict
from dataclasses import replace

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("test_triton_interpreter.py runs these in a process of their own", allow_module_level=True)

from torch.library import opcheck
from triton.runtime.errors import OutOfResources

from enlcn.models.attention import ENLCA
from enlcn.ops.enlca import can_run, enlca, launch, naive, plain_passes, triton_backward, triton_forward
from enlcn.ops.enlca.launch import Sizes, Tiling
from enlcn.ops.enlca.operators import enlca_operator
from enlcn.ops.projection import draw_projection

DEVICE = "cpu" if INTERPRETED else "cuda"
# Of Y, and of the gradients beyond g itself. The interpreter multiplies in float32, the GPU in tf32 (whose 5e-4 the
# exponential makes up to 3e-3) or bfloat16. In 16 bits the rounding of the results dominates; the interpreter cuts
# where a GPU rounds.
ERROR = {torch.float32: 1e-5 if INTERPRETED else 5e-3, torch.bfloat16: 0.04, torch.float16: 0.04}


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Fresh tensors hold NaN, so that whatever a kernel forgets to write is seen."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def problem(batch, channels, height, width, query_width, features, dtype=torch.float32, memory_format=None):
    """x and the module's weights; x varies enough that Y is no mere mean."""
    x = torch.randn(batch, channels, height, width, device=DEVICE).to(dtype)
    if memory_format is not None:
        x = x.contiguous(memory_format=memory_format)
    shapes = [(query_width, channels), (query_width,)] * 2 + [(channels, channels), (channels,)]
    weights = [torch.randn(shape, device=DEVICE) * channels**-0.5 for shape in shapes]
    return x, weights, draw_projection(features, query_width).to(DEVICE)


def relative_error(value, expected, reference):
    return ((value.double() - expected).norm() / (expected - reference).norm()).item()


def in_float64(x, weights, proj, **numbers):
    leaves = [t.double().requires_grad_() for t in (x, *weights)]
    return naive.enlca(*leaves, proj.double(), **numbers), leaves


def test_fresh_memory_is_poisoned():
    assert torch.empty(5).isnan().all()
    assert torch.ones(1).new_empty(5).isnan().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("shape", "memory_format"),
    [
        ((2, 32, 9, 17, 8, 16), torch.contiguous_format),
        ((1, 64, 10, 40, 16, 128), torch.channels_last),  # several tiles for each program
        ((3, 48, 1, 7, 12, 10), torch.channels_last),  # nothing a power of two
        ((1, 40, 129, 1, 5, 2), torch.contiguous_format),
    ],
)
@pytest.mark.parametrize("eps", [0.0, 1e-2])
def test_values_and_gradients_equal_the_equations(shape, memory_format, dtype, eps):
    assert_equal_to_the_equations(shape, memory_format, dtype, eps)


def assert_equal_to_the_equations(shape, memory_format, dtype, eps):
    x, weights, proj = problem(*shape, dtype, memory_format)
    numbers = {"amplification": 6.0, "feature_eps": eps, "res_scale": 1.5}
    expected, leaves = in_float64(x, weights, proj, **numbers)
    upstream = torch.randn_like(x)

    inputs = [t.requires_grad_() for t in (x, *weights)]
    out = enlca(*inputs, proj, backend="triton", **numbers)
    assert out.dtype == dtype
    assert out.stride() == x.stride()
    assert relative_error(out, expected, x.double()) < ERROR[dtype]
    gradients = torch.autograd.grad(out, inputs, upstream)
    exact = torch.autograd.grad(expected, leaves, upstream.double())
    for index, (got, wanted) in enumerate(zip(gradients, exact, strict=True)):
        assert got.dtype == inputs[index].dtype
        assert relative_error(got, wanted, upstream.double() if index == 0 else 0.0) < ERROR[dtype]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("eps", [0.0, 1e-2])
@pytest.mark.parametrize("without_room", [{"summarise"}, {"apply"}, {"query gradient"}, {"key gradient"}, None])
def test_passes_that_a_card_has_no_room_for_are_done_by_pytorch(monkeypatch, dtype, memory_format, eps, without_room):
    """Any one of them, or (None) all; in chunks that do not divide the positions."""
    refused = set()
    run_first_that_fits = launch.run_first_that_fits

    def refuse(key, tilings, run):
        if without_room is None or key[0] in without_room:
            refused.add(key[0])
            raise OutOfResources(1, 0, "shared memory")
        return run_first_that_fits(key, tilings, run)

    monkeypatch.setattr(launch, "run_first_that_fits", refuse)
    monkeypatch.setattr(plain_passes, "CHUNK_SIZE", 50)
    assert_equal_to_the_equations((2, 24, 9, 17, 6, 16), memory_format, dtype, eps)
    assert refused == (without_room or {"summarise", "apply", "query gradient", "key gradient"})


def test_the_floor_under_norms_of_plain_passes_at_any_k(monkeypatch):
    """At k = 7, sqrt(k) / norm is rounded to below sqrt(k) / floor where the floor took over."""
    monkeypatch.setattr(launch, "run_first_that_fits", no_room)
    for scale in (1e-7, 4e-5, 1.0):
        x, weights, proj = problem(1, 16, 5, 7, 4, 16)
        weights = [weights[0] * scale, weights[1] * 0, weights[2] * scale, weights[3] * 0, *weights[4:]]
        expected, leaves = in_float64(x, weights, proj, amplification=7.0, res_scale=1.5)
        inputs = [t.requires_grad_() for t in (x, *weights)]
        out = enlca(*inputs, proj, amplification=7.0, res_scale=1.5, backend="triton")
        exact = torch.autograd.grad(expected.square().sum(), leaves)
        for got, wanted in zip(torch.autograd.grad(out.square().sum(), inputs), exact, strict=True):
            assert relative_error(got, wanted, 0.0) < 10 * ERROR[torch.float32]  # sums that cancel


def no_room(*arguments):
    raise OutOfResources(1, 0, "shared memory")


def test_a_card_without_room_keeps_nothing(monkeypatch):
    """Neither inputs, results nor what launchers made: an error that is kept would keep them all."""
    for kernel in ("summarise_kernel", "apply_kernel", "query_gradient_kernel", "key_gradient_kernel"):
        module = triton_forward if hasattr(triton_forward, kernel) else triton_backward
        monkeypatch.setattr(module, kernel, defaultdict(lambda: lambda *a, **k: no_room()))
    gc.disable()
    try:
        for _ in range(3):
            x, weights, proj = problem(1, 16, 5, 7, 4, 16)
            out = enlca(x.requires_grad_(), *weights, proj, amplification=6.0, backend="triton")
            (gradient,) = torch.autograd.grad(out.sum(), [x])
            kept = [weakref.ref(tensor) for tensor in (x, out, gradient)]
            del x, out, gradient, weights
            assert [reference() for reference in kept] == [None] * 3
    finally:
        gc.enable()


def test_width_of_the_paper():
    x, weights, proj = problem(1, 256, 3, 43, 64, 128, torch.bfloat16, torch.channels_last)
    expected, leaves = in_float64(x, weights, proj, amplification=6.0, res_scale=1.0)
    inputs = [t.requires_grad_() for t in (x, *weights)]
    out = enlca(*inputs, proj, amplification=6.0, res_scale=1.0, backend="triton")
    assert relative_error(out, expected, x.double()) < ERROR[torch.bfloat16]
    gradients = torch.autograd.grad(out.float().square().sum(), inputs)
    exact = torch.autograd.grad(expected.square().sum(), leaves)
    for got, wanted in zip(gradients, exact, strict=True):
        assert relative_error(got, wanted, 0.0) < ERROR[torch.bfloat16]


@pytest.mark.parametrize("positions", [1, 63, 64, 65, 128, 257])
def test_every_position_is_written_at_tile_borders(positions):
    x, weights, proj = problem(1, 16, 1, positions, 4, 16)
    out = enlca(x, *weights, proj, amplification=1.0, backend="triton")
    expected, _ = in_float64(x, weights, proj, amplification=1.0)
    assert relative_error(out, expected, x.double()) < ERROR[torch.float32]


def test_strides_of_crops_and_of_broadcast_gradients():
    x, weights, proj = problem(2, 32, 12, 14, 8, 16)
    crop = x[:, :, 2:9, 3:11].requires_grad_()
    expected, (leaf, *_) = in_float64(crop.detach(), weights, proj, amplification=6.0)
    out = enlca(crop, *weights, proj, amplification=6.0, backend="triton")
    assert relative_error(out, expected, crop.detach().double()) < ERROR[torch.float32]
    (gradient,) = torch.autograd.grad(out.sum(), crop)
    (exact,) = torch.autograd.grad(expected.sum(), leaf)
    assert torch.allclose(gradient.double(), exact, atol=1e-4 if INTERPRETED else 1e-2)


@pytest.mark.parametrize("eps", [0.0, 1e-4])
def test_zero_vectors_stay_under_the_floor_of_the_norm(eps):
    x, weights, proj = problem(1, 32, 4, 5, 8, 16)
    x[..., 0] = 0.0
    weights[1].zero_()
    weights[3].zero_()
    expected, leaves = in_float64(x, weights, proj, amplification=6.0, feature_eps=eps)
    inputs = [t.requires_grad_() for t in (x, *weights)]
    out = enlca(*inputs, proj, amplification=6.0, feature_eps=eps, backend="triton")
    assert relative_error(out, expected, x.double()) < ERROR[torch.float32]
    gradients = torch.autograd.grad(out.square().sum(), inputs)
    for got, wanted in zip(gradients, torch.autograd.grad(expected.square().sum(), leaves), strict=True):
        assert relative_error(got, wanted, 0.0) < 10 * ERROR[torch.float32]


@pytest.mark.parametrize("tiling", [Tiling(16, 16, 4), Tiling(32, 32, 4, hold=True), Tiling(64, 64, 4, 2, hold=True)])
def test_any_tiling_gives_the_same(tiling):
    x, weights, proj = problem(2, 64, 9, 13, 16, 32)
    expected, _ = in_float64(x, weights, proj, amplification=6.0)
    state = triton_forward.summarise(x, weights[2], weights[3], proj, 6.0, 0.0, [tiling])
    values = triton_forward.mean_values(state, weights[4], weights[5], 32, 0.1, torch.float32)
    out = torch.empty_like(x)
    triton_forward.apply_into(out, x, weights[0], weights[1], proj, state, values, 6.0, 0.0, [tiling])
    assert relative_error(out, expected, x.double()) < ERROR[torch.float32]


def test_states_of_parts_add_up():
    x, weights, proj = problem(1, 32, 8, 9, 8, 16)
    whole, *parts = (
        triton_forward.summarise(part, weights[2], weights[3], proj, 6.0, 0.0) for part in (x, x[:, :, :3], x[:, :, 3:])
    )
    assert torch.allclose(sum(parts), whole, rtol=1e-3)


def test_offsets_in_64_bits(monkeypatch):
    monkeypatch.setattr(launch, "is_wide", lambda *_: True)
    x, weights, proj = problem(2, 32, 5, 9, 8, 16)
    inputs = [t.requires_grad_() for t in (x, *weights)]
    out = enlca(*inputs, proj, amplification=6.0, backend="triton")
    expected, leaves = in_float64(x, weights, proj, amplification=6.0)
    assert relative_error(out, expected, x.double()) < ERROR[torch.float32]
    gradients = torch.autograd.grad(out.sum(), inputs)
    assert torch.allclose(gradients[0].double(), torch.autograd.grad(expected.sum(), leaves)[0], atol=1e-2)


def test_wide_offsets_are_asked_for_where_needed():
    sizes, tiling = Sizes(256, 64, 128), Tiling(128, 256, 8)
    meta = torch.empty(1, 256, 4096, 4096, device="meta")
    assert launch.is_wide(tiling, sizes, meta)
    assert not launch.is_wide(tiling, sizes, meta.contiguous(memory_format=torch.channels_last))


def test_two_runs_agree_to_the_bit():
    x, weights, proj = problem(2, 64, 17, 19, 16, 32, torch.bfloat16)
    inputs = [t.requires_grad_() for t in (x, *weights)]
    runs = []
    for _ in range(2):
        out = enlca(*inputs, proj, amplification=6.0, backend="triton")
        runs.append([out, *torch.autograd.grad(out.float().square().sum(), inputs)])
    assert all(torch.equal(first, second) for first, second in zip(*runs, strict=True))


def test_equal_values_come_back_as_they_are():
    """The weights of a query add up to one, whatever was rounded on the way."""
    x, weights, proj = problem(1, 32, 6, 7, 8, 16, torch.bfloat16)
    weights[4].zero_()
    out = enlca(x, *weights, proj, amplification=6.0, res_scale=1.0, backend="triton")
    expected = x.float() + weights[5].bfloat16().float().view(1, -1, 1, 1)
    assert torch.allclose(out.float(), expected, rtol=1.6e-2, atol=1e-2)


def test_operator_is_what_pytorch_expects_and_compiles_whole():
    x, weights, proj = problem(1, 32, 5, 6, 8, 16)
    inputs = [t.requires_grad_() for t in (x, *weights)]
    opcheck(enlca_operator, (*inputs, proj, 6.0, 0.0, 0.1))

    def step(*tensors):
        return enlca(*tensors, proj, amplification=6.0, backend="triton").square().mean()

    compiled_step = torch.compile(step, fullgraph=True, backend="aot_eager")
    results = [torch.autograd.grad(f(*inputs), inputs) for f in (step, compiled_step)]
    for plain, compiled in zip(*results, strict=True):
        assert torch.allclose(plain, compiled)


def test_module_uses_the_kernels_and_agrees_with_plain_pytorch():
    module = ENLCA(32, num_features=16, amplification=6.0).to(DEVICE)
    x = torch.randn(2, 32, 7, 9, device=DEVICE, requires_grad=True)
    assert can_run(x, module.projection)
    results = []
    for backend in ("triton", "naive"):
        module.backend = backend
        out, (q, k) = module.forward_with_pair(x)
        parameters = [x, *module.parameters()]
        results.append([out, *torch.autograd.grad((out.square().sum() + (q * k).sum()), parameters)])
        with torch.no_grad():
            assert torch.equal(module(x), out)
    for kernels, plain in zip(*results, strict=True):
        assert torch.allclose(kernels, plain, rtol=1e-3, atol=1e-4 if INTERPRETED else 1e-1)


def test_module_leaves_features_that_need_rescaling_alone():
    module = ENLCA(32, amplification=None, backend="triton").to(DEVICE)
    assert module.stable
    assert module(torch.randn(1, 32, 4, 4, device=DEVICE)).isfinite().all()


def test_under_autocast_x_keeps_its_type_and_weights_theirs():
    module = ENLCA(32, num_features=16).to(DEVICE)
    x = torch.randn(1, 32, 6, 6, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        out = module(x)
        out.sum().backward()
    assert out.dtype == x.grad.dtype == torch.bfloat16
    assert module.query.weight.grad.dtype == torch.float32


def test_the_next_tiling_is_taken_where_the_first_has_no_room():
    tried = []

    def run(tiling):
        tried.append(tiling)
        if tiling.block_n > 16:
            raise OutOfResources(1, 0, "shared memory")

    ladder = [Tiling(64, 64, 4), Tiling(16, 64, 4)]
    for _ in range(2):
        launch.run_first_that_fits(("a key of this test",), ladder, run)
    assert [tiling.block_n for tiling in tried] == [64, 16, 16]  # what did not fit is not tried again
    for _ in range(2):
        with pytest.raises(OutOfResources):
            launch.run_first_that_fits(("another",), [replace(ladder[0], block_n=32)], run)
    assert [tiling.block_n for tiling in tried] == [64, 16, 16, 32]


@pytest.mark.parametrize("channels", [16, 48, 64, 128, 256])
@pytest.mark.parametrize("features", [2, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tilings_cover_the_channels_in_at_most_two_held_steps(channels, features, dtype):
    sizes = Sizes(channels, max(1, channels // 4), features)
    for tiling in launch.apply_tilings(sizes, dtype):
        assert not tiling.hold or 2 * tiling.block_c >= sizes.padded[0]
        assert tiling.block_c <= sizes.padded[0]
    for tiling in launch.summarise_tilings(sizes, dtype):
        assert sizes.padded[2] * tiling.block_c <= 32768
