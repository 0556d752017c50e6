import pytest
import torch

from enlcn.ops.depthwise import can_run, depthwise


def test_every_channel_has_a_kernel_of_its_own():
    x, weight, bias = torch.rand(2, 3, 6, 5), torch.rand(3, 1, 3, 3), torch.rand(3)
    out = depthwise(x, weight, bias)
    for channel in range(3):
        alone = torch.nn.functional.conv2d(x[:, [channel]], weight[[channel]], bias[[channel]], padding=1)
        assert torch.allclose(out[:, [channel]], alone, atol=1e-6)


def test_a_kernel_of_one_number_multiplies():
    x = torch.rand(1, 4, 3, 7)
    weight = torch.zeros(4, 1, 5, 5)
    weight[:, 0, 2, 2] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert torch.allclose(depthwise(x, weight, None), x * torch.arange(1, 5).view(1, 4, 1, 1))


def test_what_kernels_do_not_take_is_left_to_pytorch(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    weight = torch.rand(4, 1, 3, 3)
    assert not can_run(torch.rand(1, 4, 8, 8), weight)  # no GPU's
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert not can_run(torch.rand(1, 4, 8, 8, dtype=torch.float64), weight.double())
    assert not can_run(torch.rand(0, 4, 8, 8), weight)
    assert not can_run(torch.rand(1, 4, 8, 8), torch.rand(4, 1, 31, 31))
    with pytest.raises(ValueError, match="unknown backend 'cuda'; choose from auto, naive, triton"):
        depthwise(torch.rand(1, 4, 8, 8), weight, None, backend="cuda")
