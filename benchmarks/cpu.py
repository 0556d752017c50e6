"""Time per megapixel and peak memory on this CPU: `Engine` against the authors' way to run the same weights.

    python benchmarks/cpu.py [--network enlcn-small] [--size 256x256] [--threads 2] [--json FILE]

The authors' way is written out here: eager, float32, contiguous, V formed, features kept whole, the upsampler on the
whole image; once as Python runs it, and once with freed memory kept, as the program keeps it for `Engine`. Every
contender runs in a process of its own, so that peak memory (VmHWM) is its alone; time is the best of three after a
warm-up.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import normalize

from enlcn import freed_memory
from enlcn.checkpoint import load
from enlcn.models.attention import ENLCA
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.tiling import Tile

REPEATS = 3
AUTHORS = ("authors", "authors, memory kept")
CONTENDERS = (*AUTHORS, "whole fp32", "streaming fp32", "whole bf16", "streaming bf16")


def plain_attention(module: ENLCA, x: Tensor) -> Tensor:
    """ENLCA as the released code computes it."""
    assert module.amplification is not None
    length = module.amplification**0.5

    def features(u: Tensor) -> Tensor:
        data = torch.einsum("...id,jd->...ij", u, module.projection)
        diagonal = (u**2).sum(-1, keepdim=True) / 2
        return module.projection.shape[0] ** -0.5 * (torch.exp(data - diagonal) + 1e-4)

    q = normalize(module.query(x), dim=1, eps=5e-5).flatten(2).mT * length
    k = normalize(module.key(x), dim=1, eps=5e-5).flatten(2).mT * length
    v = module.value(x).flatten(2).mT
    phi_q, phi_k = features(q), features(k)
    normaliser = 1 / torch.einsum("...nd,...d->...n", phi_q, phi_k.sum(-2))
    context = torch.einsum("...nd,...ne->...de", phi_k, v)
    y = torch.einsum("...de,...nd,...n->...ne", context, phi_q, normaliser)
    return y.mT.reshape_as(x) * module.res_scale + x


def plain_network(network: SRNetwork, lr: Tensor) -> Tensor:
    """The whole network in the same manner."""
    shallow = network.head(lr - network.rgb_mean)
    x = shallow
    for stage in network.stages:
        if isinstance(stage.attention, ENLCA):
            x = plain_attention(stage.attention, x)
        for block in stage.blocks:  # type: ignore[union-attr]
            x = block(x)
    return network.upsampler(network.body_end(x) + shallow) + network.rgb_mean


def runner(contender: str, network: SRNetwork, lr: Tensor) -> Callable[[], None]:
    """What is timed."""
    if contender in AUTHORS:
        network.upsampler.folds = False

        def plain() -> None:
            with torch.no_grad():
                plain_network(network, lr)

        return plain
    mode, precision = contender.split()
    engine = Engine(network, EngineOptions(device="cpu", precision=precision, mode=mode))
    height, width = lr.shape[-2:]

    def ours() -> None:
        result = torch.empty(1, 3, height * engine.scale, width * engine.scale)
        s = engine.scale

        def emit(tile: Tile, sr: Tensor) -> None:
            result[..., s * tile.top : s * tile.bottom, s * tile.left : s * tile.right] = sr

        engine.upscale(height, width, lambda t: lr[..., t.top : t.bottom, t.left : t.right], emit)

    return ours


def memory(field: str) -> int:
    """VmHWM or VmRSS of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def run_contender(contender: str, name: str, width: int, height: int, threads: int) -> None:
    """In the child: warm up on a corner, then measure."""
    torch.set_num_threads(threads)
    if contender != AUTHORS[0]:
        freed_memory.keep()
    network = load(f"untrained:{name}")
    torch.manual_seed(0)
    lr = torch.rand(1, 3, height, width)
    runner(contender, network, lr[..., :32, :32])()
    before = memory("VmRSS")
    run = runner(contender, network, lr)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": min(times), "bytes": memory("VmHWM") - before}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="enlcn-small-x4")
    parser.add_argument("--size", default="256x256")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    if options.child:
        run_contender(options.child, options.network, width, height, options.threads)
        return
    table = Table(title=f"{options.network}, LR {options.size}, {options.threads} threads")
    for heading in ("", "s per LR megapixel", "times faster", "peak memory", "share of theirs"):
        table.add_column(heading, justify="right")
    results = {}
    for contender in CONTENDERS:
        command = [sys.executable, __file__, *sys.argv[1:], "--child", contender]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results[contender] = measured = json.loads(done.stdout)
        base = results["authors"]
        table.add_row(
            contender,
            f"{measured['seconds'] / (width * height) * 1e6:.2f}",
            f"{base['seconds'] / measured['seconds']:.2f}",
            f"{measured['bytes'] / 2**20:.0f} MiB",
            f"{measured['bytes'] / base['bytes']:.2f}",
        )
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps({"options": vars(options) | {"json": None}, "results": results}, indent=2))


if __name__ == "__main__":
    main()
