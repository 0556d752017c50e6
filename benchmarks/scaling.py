"""How time grows with the image on this CPU: ENLCA linearly, exact non-local attention quadratically.

    python benchmarks/scaling.py [--threads 2] [--json FILE]

Best of five runs per size; the slope is that of the least-squares line through log time against log pixels.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from enlcn.models.attention import ENLCA, Attention
from enlcn.models.rivals import NLA

CHANNELS = 64
REPEATS = 5
PLANS: dict[str, tuple[Callable[[], Attention], list[int]]] = {
    "ENLCA, chunked": (lambda: ENLCA(CHANNELS, reduction=1, backend="chunked"), [64, 128, 256, 512]),
    "NLA, exact": (lambda: NLA(CHANNELS, reduction=1), [32, 64, 128]),
}
LIMITS = {"ENLCA, chunked": ("at most", 1.15), "NLA, exact": ("at least", 1.8)}


def best_time(module: Attention, side: int) -> float:
    """Seconds of the fastest of REPEATS forward passes on a side x side image."""
    x = torch.randn(1, CHANNELS, side, side)
    times = []
    with torch.no_grad():
        module(x)
        for _ in range(REPEATS):
            start = time.perf_counter()
            module(x)
            times.append(time.perf_counter() - start)
    return min(times)


def slope(sides: list[int], times: list[float]) -> float:
    """Exponent of time in the number of pixels."""
    xs, ys = [2 * math.log(side) for side in sides], [math.log(t) for t in times]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    table = Table(title=f"C = D = {CHANNELS}, m = 128, fp32, {options.threads} threads; milliseconds")
    for heading in ("module", "32²", "64²", "128²", "256²", "512²", "slope", "wanted"):
        table.add_column(heading, justify="right" if heading != "module" else "left")
    results = {}
    for name, (build, sides) in PLANS.items():
        module = build().eval()
        times = {side: best_time(module, side) for side in sides}
        exponent = slope(sides, list(times.values()))
        cells = [f"{times[side] * 1e3:.2f}" if side in times else "" for side in (32, 64, 128, 256, 512)]
        table.add_row(name, *cells, f"{exponent:.2f}", f"{LIMITS[name][0]} {LIMITS[name][1]}")
        results[name] = {"milliseconds": {f"{s}x{s}": t * 1e3 for s, t in times.items()}, "slope": exponent}
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
