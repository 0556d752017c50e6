"""Which devices take the kernels and bfloat16. No such cards are at hand: their answers stand in for them."""

import pytest
import torch

from enlcn.ops import kernel_support
from enlcn.train.config import EngineConfig
from enlcn.train.step import precision_of
from enlcn.upscaling.devices import resolve_precision

GPU = torch.device("cuda", 0)


@pytest.fixture
def card(monkeypatch):
    def is_there(capability, hip=None):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        # As PyTorch has it, which counts what it emulates.
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
        monkeypatch.setattr(torch.version, "hip", hip)
        monkeypatch.setattr(kernel_support, "_TRITON_INSTALLED", True)

    return is_there


@pytest.mark.parametrize(
    ("capability", "hip", "kernels", "precision"),
    [
        ((7, 5), None, False, "fp32"),
        ((8, 0), None, True, "bf16"),
        ((9, 0), None, True, "bf16"),
        ((9, 0), "6", False, "bf16"),
    ],
    ids=["RTX 20", "A100", "H200", "AMD"],
)
def test_cards_before_ampere_and_amds_take_pytorch(card, capability, hip, kernels, precision):
    card(capability, hip)
    assert kernel_support.kernels_run_on(GPU) == kernels
    assert resolve_precision("auto", GPU) == precision
    assert precision_of(EngineConfig(), GPU) == precision
    assert precision_of(EngineConfig(precision="bf16"), GPU) == "bf16"


def test_cpus_take_them_in_the_interpreter_alone(card, monkeypatch):
    card((9, 0))
    cpu = torch.device("cpu")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not kernel_support.kernels_run_on(cpu)
    assert resolve_precision("auto", cpu) == "fp32"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert kernel_support.kernels_run_on(cpu)
    monkeypatch.setattr(kernel_support, "_TRITON_INSTALLED", False)
    assert not kernel_support.kernels_run_on(cpu)
