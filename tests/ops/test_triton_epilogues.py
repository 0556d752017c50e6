"""The epilogues' kernels against plain PyTorch, in Triton's interpreter or, where there is one, on the GPU."""

import os

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("test_triton_interpreter.py runs these in a process of their own", allow_module_level=True)

from torch.nn.functional import pixel_shuffle

from enlcn.ops.epilogues import bias_relu_, bias_residual_, bias_shuffle, shuffled_channels

DEVICE = "cpu" if INTERPRETED else "cuda"
# The interpreter cuts where a GPU rounds.
TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 1e-2}


def image(batch, channels, height, width, dtype):
    y = torch.randn(batch, channels, height, width, device=DEVICE).to(dtype)
    return y.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(2, 16, 5, 7), (1, 48, 1, 9), (1, 1024, 3, 3), (3, 5, 4, 4)])
def test_bias_with_relu_and_with_residual(shape, dtype):
    y, residual = image(*shape, dtype), image(*shape, dtype)
    bias = torch.randn(shape[1], device=DEVICE).to(dtype)
    for got, expected in (
        (bias_relu_(y.clone(), bias), (y.float() + bias.float().view(1, -1, 1, 1)).relu()),
        (bias_residual_(y.clone(), bias, residual), y.float() + bias.float().view(1, -1, 1, 1) + residual.float()),
    ):
        assert got.dtype == dtype
        assert got.stride() == y.stride()
        assert torch.allclose(got.float(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize(("channels", "height", "width"), [(16, 5, 7), (3, 4, 9), (256, 2, 3)])
def test_shuffle_is_pixel_shuffle_of_reordered_channels(channels, height, width, factor, dtype):
    y = torch.randn(2, channels * factor**2, height, width, device=DEVICE).to(dtype)
    bias = torch.randn(channels * factor**2, device=DEVICE).to(dtype)
    expected = pixel_shuffle(y.float() + bias.float().view(1, -1, 1, 1), factor)
    reordered = torch.stack([shuffled_channels(one, factor) for one in y])
    reordered = reordered.contiguous(memory_format=torch.channels_last)
    out = bias_shuffle(reordered, shuffled_channels(bias, factor), factor)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(out.float(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
