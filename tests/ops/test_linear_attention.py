import math
import subprocess
import sys

import pytest
import torch
from torch.nn.functional import normalize

from enlcn.ops.features import positive_features
from enlcn.ops.linear_attention import chunked, linear_attention, naive, needs_rescaling
from enlcn.ops.projection import draw_projection
from enlcn.ops.softmax_attention import softmax_attention
from tests.ops.vectors import of_length

CHUNK = 100  # small, so that every size below one, at and over several chunks is met


def inputs(batch, n, *, amplification=6.0, width=16, channels=24, dtype=torch.float32):
    q, k = of_length(amplification, batch, n, width), of_length(amplification, batch, n, width)
    return [t.to(dtype) for t in (q, k, torch.randn(batch, n, channels))]


def test_eq5_eq6_are_the_explicit_matrix_product():
    q, k, v = inputs(2, 37)
    proj = draw_projection(20, 16)
    scores = positive_features(q, proj) @ positive_features(k, proj).mT  # (B, N, N), quadratic on purpose
    expected = scores @ v / scores.sum(-1, keepdim=True)
    assert torch.allclose(linear_attention(q, k, v, proj, backend="naive"), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("n", [1, 63, 1000, 2304])
@pytest.mark.parametrize("eps", [0.0, 1e-4])
def test_chunked_equals_naive(dtype, batch, n, eps):
    tensors = inputs(batch, n, dtype=dtype)
    proj = draw_projection(128, 16)
    upstream = torch.randn(batch, n, 24).to(dtype)
    results = []
    for ops, extra in ((naive, {}), (chunked, {"chunk_size": CHUNK})):
        q, k, v = (t.clone().requires_grad_() for t in tensors)
        kv, z = ops.summarise(k, v, proj, eps, **extra)
        out = ops.apply(q, kv, z, proj, eps, **extra)
        assert out.dtype == dtype
        assert kv.dtype == z.dtype == torch.float32
        results.append([out, *torch.autograd.grad(out, (q, k, v), upstream)])
    tolerance = {"rtol": 2e-4, "atol": 2e-5} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    for whole, parts in zip(*results, strict=True):
        assert torch.allclose(whole.float(), parts.float(), **tolerance)


def test_chunked_equals_naive_on_non_contiguous_inputs_without_gradients():
    # As the module passes them: views of (B, C, H, W).
    q, k, v = (t.mT.contiguous().mT for t in inputs(2, 1000))
    assert not q.is_contiguous()
    proj = draw_projection(64, 16)
    kv, z = chunked.summarise(k, v, proj, chunk_size=CHUNK)
    out = chunked.apply(q, kv, z, proj, chunk_size=CHUNK)
    assert torch.allclose(out, linear_attention(q, k, v, proj, backend="naive"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ops", [naive, chunked])
def test_summaries_of_parts_add_up(ops):
    _, k, v = inputs(2, 300)
    proj = draw_projection(32, 16)
    whole = ops.summarise(k, v, proj)
    parts = [ops.summarise(k[:, s], v[:, s], proj) for s in (slice(0, 7), slice(7, 190), slice(190, 300))]
    for index in (0, 1):
        assert torch.allclose(sum(part[index] for part in parts), whole[index], rtol=1e-4, atol=1e-5)


def test_error_against_exact_attention_falls_like_one_over_sqrt_m():
    q, k, v = inputs(1, 128, amplification=1.0, width=64, channels=8, dtype=torch.float64)
    exact = softmax_attention(q, k, v)
    generator = torch.Generator().manual_seed(3)
    exponents = list(range(7, 15))
    errors = []
    for exponent in exponents:
        draws = [draw_projection(2**exponent, 64, generator=generator) for _ in range(4)]
        squared = [(linear_attention(q, k, v, proj) - exact).square().mean().item() for proj in draws]
        errors.append(math.sqrt(sum(squared) / len(squared)))
    slope = torch.linalg.lstsq(
        torch.tensor([[float(e), 1.0] for e in exponents]), torch.tensor([[math.log2(e)] for e in errors])
    ).solution[0, 0]
    assert -0.58 < slope < -0.42


@pytest.mark.parametrize("amplification", [1.0, 6.0, 16.0])
def test_no_overflow_up_to_k16_at_4e8_positions(amplification):
    """All keys and queries along F's longest row, and the sum over positions scaled to N = 4e8."""
    for seed in range(20):
        proj = draw_projection(128, 64, generator=torch.Generator().manual_seed(seed))
        longest = normalize(proj[proj.norm(dim=1).argmax()], dim=0) * amplification**0.5
        q = k = longest.expand(1, 1000, 64)
        v = torch.full((1, 1000, 4), 10.0)
        kv, z = naive.summarise(k, v, proj)
        kv, z = kv * (4e8 / 1000), z * (4e8 / 1000)
        assert torch.allclose(naive.apply(q, kv, z, proj), v, rtol=1e-4)
    assert not needs_rescaling(amplification, 64, 128)


@pytest.mark.parametrize("ops", [naive, chunked])
@pytest.mark.parametrize("amplification", [36.0, 64.0, 400.0])
def test_rescaling_keeps_any_amplification_finite_and_right(ops, amplification):
    proj = draw_projection(128, 64, generator=torch.Generator().manual_seed(0)).double()
    longest = normalize(proj[proj.norm(dim=1).argmax()], dim=0) * amplification**0.5
    q = torch.cat([longest.expand(1, 50, 64), of_length(amplification, 1, 50, 64, dtype=torch.float64)], dim=1)
    v = torch.randn(1, 100, 8, dtype=torch.float64)
    exact = softmax_of_log_features(q, q, v, proj)
    shift = ops.feature_maximum(q.float(), proj.float())
    kv, z = ops.summarise(q.float(), v.float(), proj.float(), 0.0, shift)
    out = ops.apply(q.float(), kv, z, proj.float(), 0.0, shift)
    assert torch.allclose(out.double(), exact, rtol=1e-2, atol=1e-3)
    assert needs_rescaling(amplification, 64, 128)


@pytest.mark.parametrize("amplification", [100.0, 200.0, 1000.0])
@pytest.mark.parametrize("width", [8, 16, 64])
def test_features_that_would_vanish_are_rescaled(width, amplification):
    """Short rows of F do not overflow: exp(-k) is then too small for any feature."""
    for seed in range(5):
        proj = draw_projection(128, width, generator=torch.Generator().manual_seed(seed))
        q, k = of_length(amplification, 1, 256, width), of_length(amplification, 1, 256, width)
        v = torch.randn(1, 256, 4)
        assert needs_rescaling(amplification, width, 128)
        out = linear_attention(q, k, v, proj, stable=True)
        exact = softmax_of_log_features(q.double(), k.double(), v.double(), proj.double())
        assert torch.allclose(out.double(), exact, rtol=1e-2, atol=1e-3)


def test_other_shapes_are_refused():
    proj = draw_projection(8, 16)
    with pytest.raises(ValueError, match=r"must be \(B, N, D\).*got \(4, 1, 9, 16\).*heads go into B"):
        linear_attention(*(torch.rand(4, 1, 9, 16) for _ in range(3)), proj)


def softmax_of_log_features(q, k, v, proj):
    from enlcn.ops.features import log_features

    log_weights = (log_features(q, proj).unsqueeze(2) + log_features(k, proj).unsqueeze(1)).logsumexp(-1)
    return torch.softmax(log_weights, dim=-1) @ v


def test_rescaling_changes_neither_value_nor_gradient():
    results = []
    tensors = inputs(2, 50)
    proj = draw_projection(64, 16)
    for stable in (False, True):
        q, k, v = (t.clone().requires_grad_() for t in tensors)
        out = linear_attention(q, k, v, proj, eps=1e-4, stable=stable)
        results.append([out, *torch.autograd.grad(out.square().sum(), (q, k, v))])
    for plain, rescaled in zip(*results, strict=True):
        assert torch.allclose(plain, rescaled, rtol=1e-3, atol=1e-4)


def test_unbounded_norms_are_rescaled():
    assert needs_rescaling(None, 64, 128)


def test_unknown_backend_lists_the_known():
    q, k, v = inputs(1, 5)
    with pytest.raises(ValueError, match="choose from auto, naive, chunked"):
        linear_attention(q, k, v, draw_projection(4, 16), backend="cuda")


MEMORY_PROBE = """
import sys, torch
from enlcn.ops.linear_attention import linear_attention
from enlcn.ops.projection import draw_projection
torch.set_num_threads(1)

def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) * 1024

n, backend = int(sys.argv[1]), sys.argv[2]
proj = draw_projection(128, 16)
small = torch.randn(1, 20000, 16)
linear_attention(small, small, small, proj, backend="chunked")  # libraries and scratch are in by now
q, k, v, out = (torch.randn(1, n, 16) for _ in range(4))
del out  # the output's room
before = peak()
linear_attention(q, k, v, proj, backend=backend)
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads peak memory from /proc")
def test_memory_of_chunked_does_not_grow_with_n():
    def extra_bytes(n, backend):
        run = [sys.executable, "-c", MEMORY_PROBE, str(n), backend]
        return int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)

    # Beyond inputs and output, the naive version keeps phi of all positions (128 MiB at 2^18), the chunked one
    # a few chunks; the allocator's own slack is allowed for.
    assert extra_bytes(2**18, "naive") > 2**18 * 128 * 4
    assert extra_bytes(2**18, "chunked") < 48 * 2**20
    assert extra_bytes(2**20, "chunked") < 48 * 2**20
