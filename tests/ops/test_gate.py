import pytest
import torch

from enlcn.ops.gate import can_run, gate


def test_every_channel_has_a_kernel_of_its_own():
    said, heard, weight, bias = *torch.rand(2, 2, 3, 6, 5), torch.rand(3, 1, 3, 3), torch.rand(3)
    out = gate(torch.cat((said, heard), dim=1), torch.tensor([0.5, 0.0, 2.0]), weight, bias)
    for channel, offset in enumerate((0.5, 0.0, 2.0)):
        alone = torch.nn.functional.conv2d(heard[:, [channel]], weight[[channel]], bias[[channel]], padding=1)
        assert torch.allclose(out[:, [channel]], (said[:, [channel]] + offset) * alone, atol=1e-6)


def test_a_kernel_of_one_number_multiplies():
    said, heard = torch.rand(2, 1, 4, 3, 7)
    weight = torch.zeros(4, 1, 5, 5)
    weight[:, 0, 2, 2] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    expected = said * (heard * torch.arange(1, 5).view(1, 4, 1, 1) + 0.5)
    assert torch.allclose(gate(torch.cat((said, heard), dim=1), None, weight, torch.full((4,), 0.5)), expected)


def test_what_kernels_do_not_take_is_left_to_pytorch(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    expanded, weight, bias = torch.rand(1, 8, 8, 8), torch.rand(4, 1, 3, 3), torch.rand(4)
    assert not can_run(expanded, weight)  # no GPU's
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert not can_run(expanded.double(), weight.double())
    assert not can_run(expanded[:0], weight)
    assert not can_run(expanded, torch.rand(4, 1, 11, 11))
    with pytest.raises(ValueError, match="unknown backend 'cuda'; choose from auto, naive, triton"):
        gate(expanded, None, weight, bias, backend="cuda")
