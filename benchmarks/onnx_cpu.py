"""onnxruntime against PyTorch on this CPU, side by side: the same weights, the same picture.

    python benchmarks/onnx_cpu.py [--model enlcn-light-x4] [--sizes 128x128,256x256] [--threads 2] [--json FILE]

Contenders take turns, so that whatever else the machine does meets all of them; of many repeats the fastest and the
median are told, and the least CPU time, which other programs disturb less. Each upscales a picture through the engine
that `enlcn upscale` uses.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from enlcn.checkpoint import load
from enlcn.export.onnx import export_onnx
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.open_engine import open_engine
from enlcn.upscaling.tiling import Tile

CONTENDERS = ("PyTorch fp32", "onnxruntime fp32", "PyTorch bf16", "onnxruntime fp16")


def engines(model: str, folder: Path) -> dict[str, Engine]:
    network = load(model)
    for precision in ("fp32", "fp16"):
        export_onnx(network, folder / f"{precision}.onnx", precision=precision)
    made: dict[str, Engine] = {}
    for contender in CONTENDERS:
        kind, precision = contender.split()
        options = EngineOptions(device="cpu", mode="whole", precision=precision)
        source = model if kind == "PyTorch" else str(folder / f"{precision}.onnx")
        made[contender] = open_engine(source, options)
    return made


def runner(engine: Engine, lr: Tensor) -> Callable[[], Tensor]:
    height, width = lr.shape[-2:]
    s = engine.scale

    def run() -> Tensor:
        result = torch.empty(1, 3, height * s, width * s)

        def emit(tile: Tile, sr: Tensor) -> None:
            result[..., s * tile.top : s * tile.bottom, s * tile.left : s * tile.right] = sr

        engine.upscale(height, width, lambda t: lr[..., t.top : t.bottom, t.left : t.right], emit)
        return result

    return run


def measure(made: dict[str, Engine], size: tuple[int, int], repeats: int) -> dict[str, dict[str, float]]:
    """Fastest and median seconds, least CPU seconds, and the largest difference to the first contender."""
    width, height = size
    lr = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(0))
    runners = {name: runner(engine, lr) for name, engine in made.items()}
    results = {name: run() for name, run in runners.items()}  # warm
    times: dict[str, list[float]] = {name: [] for name in runners}
    work: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(repeats):
        for name, run in runners.items():
            start, worked = time.perf_counter(), time.process_time()
            run()
            times[name].append(time.perf_counter() - start)
            work[name].append(time.process_time() - worked)
    truth = results[CONTENDERS[0]]
    return {
        name: {
            "fastest": min(taken),
            "median": statistics.median(taken),
            "cpu": min(work[name]),
            "difference": float((results[name] - truth).abs().max()),
        }
        for name, taken in times.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="enlcn-light-x4")
    parser.add_argument("--sizes", default="128x128,256x256")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        made = engines(options.model, Path(folder))
        for size in options.sizes.split(","):
            width, height = map(int, size.split("x"))
            found[size] = rows = measure(made, (width, height), options.repeats)
            table = Table(title=f"{options.model}, LR {size}, {options.threads} threads, {options.repeats} repeats")
            for heading in ("", "fastest", "median", "CPU time", "times faster", "difference"):
                table.add_column(heading, justify="right")
            for name, row in rows.items():
                faster = rows[CONTENDERS[0]]["fastest"] / row["fastest"]
                seconds = [f"{row[key]:.3f} s" for key in ("fastest", "median", "cpu")]
                table.add_row(name, *seconds, f"{faster:.2f}", f"{row['difference']:.1g}")
            Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
