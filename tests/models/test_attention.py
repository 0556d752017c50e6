import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from enlcn.models.attention import ENLCA, Attention, says_all
from enlcn.models.rivals import CCA, NLA, NLSA
from enlcn.ops.linear_attention import linear_attention
from enlcn.ops.softmax_attention import softmax_attention

MODULES = {
    "enlca": lambda: ENLCA(32, num_features=16),
    "enlca, raw": lambda: ENLCA(32, num_features=16, amplification=None),
    "nla": lambda: NLA(32),
    "nlsa": lambda: NLSA(32, bucket_size=16),
    "cca": lambda: CCA(32),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 5), (20, 31)])
def test_one_interface(name, shape):
    module = MODULES[name]()
    x = torch.randn(2, 32, *shape, requires_grad=True)
    y = module(x)
    assert y.shape == x.shape
    assert y.isfinite().all()
    y.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
    out, (q, k) = module.forward_with_pair(x)
    assert torch.equal(out, y)
    assert q.shape == k.shape == (2, shape[0] * shape[1], 8)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("shape", [(32, 8, 8), (2, 64, 32), (1, 1, 32, 4, 4)])
def test_other_shapes_are_told_what_to_give(name, shape):
    module = MODULES[name]()
    for call in (module, module.forward_with_pair):
        with pytest.raises(ValueError, match=r"give \(B, C, H, W\)"):
            call(torch.randn(shape))


@pytest.mark.parametrize("name", MODULES)
def test_channels_last_gives_the_same(name):
    module = MODULES[name]().eval()
    x = torch.randn(2, 32, 9, 11)
    assert torch.allclose(module(x.contiguous(memory_format=torch.channels_last)), module(x), atol=1e-5)


def test_eq3_queries_and_keys_have_length_sqrt_k():
    q, k = ENLCA(32, amplification=6.0).queries_keys(torch.randn(1, 32, 8, 8))
    for t in (q, k):
        assert torch.allclose(t.norm(dim=-1), torch.full((1, 64), 6**0.5), atol=1e-5)


@pytest.mark.parametrize("amplification", [1.0, 6.0, 64.0])
def test_values_need_not_be_formed(amplification):
    """psi on the summary equals psi on every pixel."""
    module = ENLCA(32, num_features=64, amplification=amplification).double()
    x = torch.randn(2, 32, 9, 7, dtype=torch.float64)
    q, k = module.queries_keys(x)
    v = module.value(x).flatten(2).mT
    expected = linear_attention(q, k, v, module.projection, stable=module.stable)
    assert torch.allclose(module.mix(q, k, x).flatten(2).mT, expected)


def test_backends_agree():
    module = ENLCA(32, num_features=64)
    x = torch.randn(1, 32, 100, 100)  # more than one chunk
    results = {}
    for backend in ("naive", "chunked", "auto"):
        module.backend = backend
        results[backend] = module(x)
    assert torch.allclose(results["naive"], results["chunked"], atol=1e-5)
    assert torch.equal(results["auto"], results["chunked"])


def test_many_features_approach_exact_attention():
    torch.manual_seed(0)
    exact = NLA(32, amplification=1.0)
    x = torch.randn(1, 32, 12, 12)
    errors = []
    for num_features in (64, 16384):
        module = ENLCA(32, num_features=num_features, amplification=1.0)
        for name in ("query", "key", "value"):
            getattr(module, name).load_state_dict(getattr(exact, name).state_dict())
        errors.append((module(x) - exact(x)).norm() / (exact(x) - x).norm())
    assert errors[1] < 0.05
    assert errors[1] < errors[0] / 4


def test_nla_is_softmax_attention_plus_skip():
    module = NLA(16, res_scale=0.5)
    x = torch.randn(1, 16, 5, 6)
    q, k = module.queries_keys(x)
    y = softmax_attention(q, k, module.value(x).flatten(2).mT)
    assert torch.allclose(module(x), x + 0.5 * y.mT.view_as(x), atol=1e-5)


def test_redraw_changes_f_in_place_and_follows_the_generator():
    module = ENLCA(32)
    storage, before = module.projection.data_ptr(), module.projection.clone()
    module.redraw(torch.Generator().manual_seed(3))
    first = module.projection.clone()
    assert module.projection.data_ptr() == storage
    assert not torch.equal(before, first)
    module.redraw(torch.Generator().manual_seed(3))
    assert torch.equal(module.projection, first)
    hashed = NLSA(32)
    before = hashed.rotations.clone()
    hashed.redraw()
    assert not torch.equal(hashed.rotations, before)
    NLA(32).redraw()  # nothing random in it: allowed, and does nothing


def test_bf16_autocast_keeps_features_in_float32():
    module = ENLCA(64, num_features=64)
    x = torch.randn(1, 64, 16, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, (q, _) = module.forward_with_pair(x)
    assert q.dtype == torch.float32
    assert torch.allclose(y.float(), module(x), atol=0.05)


def test_drops_into_a_foreign_network():
    network = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), ENLCA(channels=32), nn.Conv2d(32, 3, 3, padding=1))
    network(torch.randn(1, 3, 15, 17)).mean().backward()
    assert network[1].query.weight.grad.abs().sum() > 0
    assert "1.projection" in network.state_dict()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ENLCA(32, num_features=0), "num_features is 0; it must be at least 1"),
        (lambda: ENLCA(32, amplification=-1), "amplification is -1; it must be positive"),
        (lambda: ENLCA(32, amplification=float("inf")), "amplification is inf; it must be positive and finite"),
        (lambda: NLA(32, res_scale=float("nan")), "res_scale is nan; it must be finite"),
        (lambda: ENLCA(32, feature_eps=-1), "feature_eps is -1; it must not be negative"),
        (lambda: ENLCA(3), r"channels \(3\) must be a multiple of the reduction \(4\)"),
        (lambda: ENLCA(30), r"channels \(30\) must be a multiple"),
        (lambda: NLA(0), r"channels \(0\)"),
        (lambda: CCA(8, reduction=0), r"reduction \(0\)"),
        (lambda: NLSA(32, num_rounds=0), "num_rounds is 0"),
        (lambda: NLSA(32, bucket_size=0), "bucket_size is 0"),
        (lambda: ENLCA(32, backend="foo"), "unknown backend 'foo'; choose from auto, naive, chunked, triton"),
        (lambda: ENLCA(32, projection="foo"), "unknown projection 'foo'; choose from orthogonal, iid"),
    ],
)
def test_bad_arguments_are_refused_at_construction(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_triton_must_be_installed_to_be_asked_for():
    """In a process that cannot find it."""
    code = (
        "import sys; sys.modules['triton'] = None\n"
        "from enlcn.errors import UserError\n"
        "from enlcn.models.attention import ENLCA\n"
        "try: ENLCA(32, backend='triton')\n"
        "except UserError as error: sys.exit('Triton, which is not installed' not in str(error))\n"
        "sys.exit(2)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Adapter(nn.Module):
    """A low-rank addition to a projection, as adapters for large networks are made."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Conv2d(base.in_channels, 2, 1, bias=False)
        self.up = nn.Conv2d(2, base.out_channels, 1, bias=False)

    @property
    def weight(self):
        return self.base.weight

    @property
    def bias(self):
        return self.base.bias

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


@pytest.mark.parametrize("part", ["query", "key", "value"])
def test_adapters_around_projections_count_and_learn(part):
    module, x = ENLCA(32, num_features=16), torch.randn(2, 32, 6, 5)
    plain = module(x)
    adapter = Adapter(getattr(module, part))
    setattr(module, part, adapter)
    y = module(x)
    assert not torch.allclose(y, plain)
    y.square().mean().backward()
    assert adapter.up.weight.grad.norm() > 0
    merged = getattr(module, part).base
    with torch.no_grad():
        merged.weight += (adapter.up.weight.flatten(1) @ adapter.down.weight.flatten(1))[..., None, None]
    setattr(module, part, merged)
    assert torch.allclose(module(x), y, atol=1e-5)


@pytest.mark.parametrize("part", ["query", "value"])
def test_pruned_hooked_and_biasless_projections_are_called(part):
    module, x = ENLCA(32, num_features=16), torch.randn(2, 32, 6, 5)
    projection = getattr(module, part)
    seen = []
    hook = projection.register_forward_hook(lambda *arguments: seen.append(1))
    module(x)
    hook.remove()
    assert seen == [1]
    prune.l1_unstructured(projection, "weight", 0.5)
    for _ in range(2):
        module(x).square().mean().backward()
    before = module(x)
    with torch.no_grad():
        projection.weight_orig.mul_(2)
    assert not torch.allclose(module(x), before)
    setattr(module, part, nn.Conv2d(32, projection.out_channels, 1, bias=False))
    assert module(x).shape == x.shape


def test_spectral_norm_and_its_kin_need_no_calls():
    module, x = ENLCA(32, num_features=16), torch.randn(2, 32, 6, 5)
    nn.utils.parametrizations.spectral_norm(module.value)
    module.eval()  # else every look at the weight changes it
    assert says_all(module.query, module.key, module.value)
    called = x + module.res_scale * Attention.mix(module, *module.queries_keys(x), x)
    assert torch.allclose(module(x), called, atol=1e-5)


@pytest.mark.parametrize("needs_gradient", [True, False])
def test_exported_it_takes_any_size(needs_gradient):
    module, auto = ENLCA(32, num_features=16).eval(), torch.export.Dim.DYNAMIC
    with torch.set_grad_enabled(needs_gradient):
        program = torch.export.export(
            module, (torch.randn(2, 32, 12, 10),), dynamic_shapes=({0: auto, 2: auto, 3: auto},)
        )
        for shape in ((1, 32, 5, 7), (3, 32, 96, 100)):
            x = torch.randn(shape)
            assert torch.allclose(program.module()(x), module(x), atol=1e-5)


def test_torch_func_takes_the_naive_one_at_any_size():
    module, x = ENLCA(8, num_features=4, backend="naive"), torch.randn(1, 8, 96, 100)
    gradient = torch.func.grad(lambda z: module(z).square().sum())(x)
    x.requires_grad_()
    assert torch.allclose(gradient, torch.autograd.grad(module(x).square().sum(), x)[0], rtol=1e-3, atol=1e-4)
    value, tangent = torch.func.jvp(module, (x.detach(),), (torch.ones_like(x),))
    assert value.shape == tangent.shape == x.shape


def test_print_shows_what_the_module_is():
    shown = repr(ENLCA(channels=32, num_features=16))
    assert "num_features=16, projection='orthogonal', amplification=6.0, res_scale=0.1" in shown
