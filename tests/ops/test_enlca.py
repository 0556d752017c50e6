import subprocess
import sys
from pathlib import Path

import pytest
import torch

from enlcn.models.attention import ENLCA
from enlcn.ops.enlca import can_run, enlca, naive
from enlcn.ops.projection import draw_projection

ROOT = Path(__file__).parents[2]


def arguments(channels=32, width=8, features=16, dtype=torch.float64):
    shapes = [(width, channels), (width,)] * 2 + [(channels, channels), (channels,)]
    return [torch.randn(shape, dtype=dtype) * 0.3 for shape in shapes] + [draw_projection(features, width).to(dtype)]


@pytest.mark.parametrize("eps", [0.0, 1e-4])
def test_the_function_is_the_module(eps):
    module = ENLCA(32, num_features=16, amplification=6.0, feature_eps=eps, backend="naive").double()
    x = torch.randn(2, 32, 7, 9, dtype=torch.float64)
    weights = [p for conv in (module.query, module.key, module.value) for p in (conv.weight.flatten(1), conv.bias)]
    out = naive.enlca(x, *weights, module.projection, amplification=6.0, feature_eps=eps, res_scale=0.1)
    assert torch.allclose(out, module(x), rtol=1e-10)


def test_auto_is_the_equations_on_a_cpu():
    x, weights = torch.randn(1, 32, 5, 6, dtype=torch.float64), arguments()
    assert not can_run(x, weights[-1])
    assert torch.equal(enlca(x, *weights, amplification=6.0), enlca(x, *weights, amplification=6.0, backend="naive"))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bit_input_is_computed_in_float32(dtype):
    x, weights = torch.randn(1, 32, 9, 9).to(dtype), arguments(dtype=torch.float32)
    out = enlca(x, *weights, amplification=6.0)
    assert out.dtype == dtype
    assert torch.equal(out, enlca(x.float(), *weights, amplification=6.0).to(dtype))


def test_kernels_are_not_asked_for_in_vain():
    module = ENLCA(32, num_features=16, backend="triton")
    with pytest.raises(
        ValueError, match="the kernels run on NVIDIA GPUs since Ampere, not on this cpu; take backend='"
    ):
        module(torch.randn(1, 32, 5, 6))


def test_unknown_backend_lists_the_known():
    with pytest.raises(ValueError, match="choose from auto, naive, triton"):
        enlca(torch.randn(1, 32, 2, 2), *arguments(), amplification=6.0, backend="cuda")


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
import torch
from enlcn.models.attention import ENLCA
x = torch.randn(1, 32, 5, 5, requires_grad=True)
ENLCA(32)(x).sum().backward()
assert not any(name.startswith("triton.") for name in sys.modules)
"""


def test_runs_without_triton():
    subprocess.run([sys.executable, "-c", WITHOUT_TRITON], check=True, cwd=ROOT)
