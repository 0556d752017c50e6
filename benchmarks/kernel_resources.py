"""Every Triton kernel compiled for an NVIDIA GPU that need not be there: registers, spilled bytes, shared memory.

    python benchmarks/kernel_resources.py                         # for an H100 or H200 (compute capability 9.0)
    python benchmarks/kernel_resources.py --capability 86         # a GeForce RTX 30: less shared memory
    python benchmarks/kernel_resources.py --json kernels.json

The launchers run as they would on the GPU, on tensors of the CPU, except that what they launch is compiled and
measured instead. What does not fit says so, and they take their next tiling, as they would there. Nothing is computed,
so results are not looked at, and no time is measured: spilled bytes and registers tell which tilings cannot be fast.
"""

# mypy: disable-error-code="import-untyped,import-not-found"

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

# Bytes of shared memory one program may have, by compute capability (CUDA's programming guide).
SHARED_LIMITS = {80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10, 120: 99 << 10}
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
# Channels, query width, features: the paper's network, the light ones, the gated ones, the largest that kernels take.
ATTENTIONS = {"paper": (256, 64, 128), "light": (64, 16, 128), "gated": (128, 32, 128), "largest": (256, 64, 256)}


@dataclass(frozen=True)
class Compiled:
    """One kernel as compiled for one workload."""

    workload: str
    kernel: str
    warps: int
    registers: int
    spilled: int  # bytes a thread
    shared: int  # bytes a program
    fits: bool


class CompileOnly(DriverBase):
    """Stands in for a GPU's driver as far as compiling goes."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    @classmethod
    def is_active(cls) -> bool:
        """Always."""
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        """For launching."""
        raise NotImplementedError("nothing is launched")

    def get_current_target(self) -> GPUTarget:
        """What is compiled for."""
        return self.target

    def get_current_device(self) -> int:
        """The same number for all: a process compiles for one target, and launchers remember what fitted there."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """Never used."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Where the tensors are."""
        return torch.device("cpu")

    def get_benchmarker(self) -> Callable[..., Any]:
        """For launching."""
        raise NotImplementedError("nothing is launched")


@contextmanager
def compiling(capability: int, workload: str, found: list[Compiled]) -> Iterator[None]:
    """Launches within compile, are added to `found`, and fail where a GPU of this capability has no room for them."""
    run, limit = JITFunction.run, SHARED_LIMITS[capability]

    def measure(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        registers, spilled = registers_and_spills(kernel.asm["cubin"])
        shared = int(kernel.metadata.shared)
        fits = shared <= limit
        found.append(Compiled(workload, self.__name__, kernel.metadata.num_warps, registers, spilled, shared, fits))
        if not fits:
            raise OutOfResources(shared, limit, "shared memory")

    triton.runtime.driver.set_active(CompileOnly(capability))
    JITFunction.run = measure
    try:
        yield
    finally:
        JITFunction.run = run  # the stand-in stays: there may be no driver to go back to


def registers_and_spills(cubin: bytes) -> tuple[int, int]:
    """Registers a thread, and bytes a thread that did not fit into them, as the tool beside Triton's assembler says."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    numbers = {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}
    return numbers["REG"], numbers["STACK"] + numbers["LOCAL"]


def image(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.zeros(shape, dtype=dtype).contiguous(memory_format=torch.channels_last)


def attention(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    """ENLCA forward and backward."""
    from enlcn.ops.enlca.triton_backward import backward
    from enlcn.ops.enlca.triton_forward import forward

    channels, width, features = sizes
    x = image(2, channels, 16, 32, dtype=dtype)
    query = key = (torch.zeros(width, channels), torch.zeros(width))
    value, proj = (torch.zeros(channels, channels), torch.zeros(channels)), torch.zeros(features, width)
    weights = (*query, *key, *value, proj)
    _, state, values = forward(x, *weights, 6.0, 0.0, 0.1)
    backward(x, x, *weights, state, values, 6.0, 0.0, 0.1)


def contrast(num_positions: int) -> None:
    """L_cl of rows of so many scores, with its gradient."""
    from enlcn.ops.contrastive.triton_ranks import ranked_terms

    t = torch.zeros(1, 4, num_positions)
    count, start = num_positions // 50, num_positions * 8 // 100
    ranked_terms(t, count, start, margin=1.0, hinge=True, floor=1e-6, slope=1.0, gradient=torch.zeros_like(t))


def epilogues(channels: int, dtype: torch.dtype) -> None:
    """What follows convolutions."""
    from enlcn.ops.epilogues import triton_epilogues

    y, bias = image(1, 4 * channels, 8, 16, dtype=dtype), torch.zeros(4 * channels, dtype=dtype)
    triton_epilogues.finish_(y, bias, None, relu=True)
    triton_epilogues.finish_(y, bias, y, relu=False)
    triton_epilogues.shuffle(y, bias, 2)


def gate(channels: int, side: int, dtype: torch.dtype) -> None:
    """The gate of gated blocks, forward and backward."""
    from enlcn.ops.gate.launch import backward, forward, planes

    expanded = planes(torch.empty(0, dtype=dtype), 2, 2 * channels, 16, 32).zero_()
    offset, weight, bias = torch.zeros(channels), torch.zeros(channels, 1, side, side), torch.zeros(channels)
    out, kept = forward(expanded, offset, weight, bias, keeps=True)
    backward(out, expanded, kept, offset, weight)


def workloads(quick: bool) -> dict[str, Callable[[], object]]:
    """What is compiled, by name; quick: each kernel at least once, for the paper's network and the gated ones."""
    made: dict[str, Callable[[], object]] = {}
    for rows in (784,) if quick else (784, 2304, 16384):
        made[f"L_cl, rows of {rows}"] = partial(contrast, rows)
    for name, dtype in DTYPES.items():
        for size in ("paper",) if quick else ATTENTIONS:
            made[f"ENLCA {size} {name}"] = partial(attention, ATTENTIONS[size], dtype)
        for channels in (256,) if quick else (64, 256):
            made[f"epilogues {channels} {name}"] = partial(epilogues, channels, dtype)
        for side in (7,) if quick else (3, 5, 7, 9):
            made[f"gate {side}x{side} {name}"] = partial(gate, 128, side, dtype)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capability", type=int, choices=SHARED_LIMITS, default=90)
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the same as a list of objects")
    options = parser.parse_args()
    found: list[Compiled] = []
    print(f"{'registers':>9} {'spilled':>8} {'shared':>8} {'warps':>6}")
    for label, launch in workloads(options.quick).items():
        before = len(found)
        with compiling(options.capability, label, found):
            launch()
        for kernel in found[before:]:
            note = "" if kernel.fits else " (does not fit)"
            numbers = f"{kernel.registers:>9} {kernel.spilled:>8} {kernel.shared:>8} {kernel.warps:>6}"
            print(f"{numbers}  {kernel.kernel}, {label}{note}", flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(kernel) for kernel in found], indent=1))


if __name__ == "__main__":
    main()
