"""ENLCA on a GPU: checked against float64 first, then measured beside its rivals and the card's own ceilings.

    python benchmarks/gpu.py --out gpu.json --markdown docs/performance.md --plot docs/performance.png
    python benchmarks/gpu.py --sections check,passes --out gpu.json         # parts of it
    python benchmarks/gpu.py --render gpu.json --markdown performance.md    # tables again, from a saved run
    python benchmarks/gpu.py --tiny --out tiny.json      # every branch on a CPU, interpreted; times mean nothing

GPU time is the median of graph replays, for every contender alike; wall time is one eager call as its caller waits.
Whatever fails is printed with its traceback, kept in the JSON, and the rest goes on.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from gpu_report import Results, markdown, plot, short_table
from gpu_timing import Result

SECTIONS = ("check", "ceilings", "module", "passes", "rivals", "network", "train", "big")


def main() -> int:
    arguments = parse()
    results = json.loads(arguments.render.read_text()) if arguments.render else measure(arguments)
    write(results, arguments)
    print(short_table(results))
    failed = [entry["label"] for entries in results["sections"].values() for entry in entries if "failed" in entry]
    wrong = [
        entry["label"] for entries in results["sections"].values() for entry in entries if entry.get("ok") is False
    ]
    for title, labels in (("failed", failed), ("wrong", wrong)):
        if labels:
            print(f"{title}: {'; '.join(labels)}")
    return 1 if failed or wrong else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"any of {', '.join(SECTIONS)}")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    parser.add_argument("--markdown", type=Path, help="write the tables")
    parser.add_argument("--plot", type=Path, help="write time against pixels as an image (needs matplotlib)")
    parser.add_argument("--render", type=Path, metavar="JSON", help="measure nothing; render a saved run")
    parser.add_argument("--tiny", action="store_true", help="every branch, at sizes for a CPU")
    arguments = parser.parse_args()
    unknown = set(arguments.sections.split(",")) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown section {', '.join(sorted(unknown))}; choose from {', '.join(SECTIONS)}")
    return arguments


def measure(arguments: argparse.Namespace) -> Results:
    if arguments.tiny:
        os.environ["TRITON_INTERPRET"] = "1"
    # Here, not above: Triton reads that when it is first imported, and a saved run renders without it.
    import gpu_checks
    import gpu_module
    import gpu_network

    device = torch.device("cpu" if arguments.tiny else "cuda")
    tiny = arguments.tiny
    sections: dict[str, Callable[[], list[Result]]] = {
        "check": lambda: gpu_checks.check_all(device, tiny=tiny),
        "ceilings": lambda: gpu_module.ceilings(device, tiny=tiny),
        "module": lambda: gpu_module.module_times(device, ["ours", "plain"], tiny=tiny),
        "passes": lambda: gpu_module.passes(device, tiny=tiny),
        "rivals": lambda: gpu_module.module_times(device, ["conv3x3", "sdpa", "nlsa"], tiny=tiny),
        "network": lambda: gpu_network.networks(device, tiny=tiny),
        "train": lambda: gpu_network.training(device, tiny=tiny),
        "big": lambda: gpu_module.big(device, tiny=tiny),
    }
    torch.backends.cudnn.benchmark = not tiny
    results: Results = {"machine": machine(device), "sections": {}, "seconds": {}}
    for name in SECTIONS:
        if name in arguments.sections.split(","):
            print(f"== {name}", flush=True)
            began = time.perf_counter()
            results["sections"][name] = sections[name]()
            results["seconds"][name] = time.perf_counter() - began
            write(results, arguments)  # what is done is safe, whatever comes next
    return results


def machine(device: torch.device) -> dict[str, str]:
    import triton  # type: ignore[import-untyped, unused-ignore]

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU, Triton's interpreter"
    return {"device": name, "torch": torch.__version__, "triton": triton.__version__, "python": sys.version.split()[0]}


def write(results: Results, arguments: argparse.Namespace) -> None:
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))
    if arguments.markdown:
        arguments.markdown.write_text(markdown(results))
    if arguments.plot:
        try:
            plot(results, arguments.plot)
        except ImportError:
            print("no plot: matplotlib is not installed; use --render where it is", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
