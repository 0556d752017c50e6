"""Where the Triton kernels run: one answer for all of them."""

import importlib.util
import os

import torch

_TRITON_INSTALLED = importlib.util.find_spec("triton") is not None
_AMPERE = (8, 0)  # before it there is neither bfloat16 nor tf32


def kernels_run_on(device: torch.device) -> bool:
    """Whether this package's kernels run on a device: an NVIDIA GPU since Ampere, or a CPU in Triton's interpreter."""
    if not _TRITON_INSTALLED:
        return False
    if device.type == "cpu":
        return os.environ.get("TRITON_INTERPRET") == "1"
    # torch.compile cannot trace the question of the capability; where its own kernels run, these do.
    return is_nvidia(device) and (torch.compiler.is_compiling() or has_bf16(device))


def is_nvidia(device: torch.device) -> bool:
    """Whether a device is a GPU of NVIDIA's: AMD's are called "cuda", too."""
    return device.type == "cuda" and torch.version.hip is None


def has_bf16(device: torch.device) -> bool:
    """Whether a GPU computes in bfloat16 itself; PyTorch emulates it on older ones, far more slowly than float32."""
    if device.type != "cuda":
        return False
    if torch.version.hip is not None:
        return torch.cuda.is_bf16_supported()
    return torch.cuda.get_device_capability(device) >= _AMPERE
