"""Where to compute, and in which precision."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from enlcn.device_names import usable_device
from enlcn.ops.kernel_support import has_bf16
from enlcn.shared_scope import SharedScope

_WITHOUT_TF32 = SharedScope(lambda: torch.backends.cudnn.flags(enabled=True, allow_tf32=False))
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_device(name: str) -> torch.device:
    """The torch device a name stands for; "auto" takes the fastest there is."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    return usable_device(name, also=("auto",))


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Run with `count` CPU threads; None leaves them as they are."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resolve_precision(name: str, device: torch.device) -> str:
    """The precision a name stands for; "auto" is bf16 on GPUs that compute in it themselves, fp32 elsewhere."""
    if name != "auto":
        return name
    return "bf16" if has_bf16(device) else "fp32"


def autocast(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """A scope in which convolutions and matrix products run in `precision`; fp32 does not become TF32 on the way."""
    if precision != "fp32":
        return torch.autocast(device.type, dtype=DTYPES[precision])
    if device.type == "cuda":
        return _WITHOUT_TF32
    return nullcontext()
