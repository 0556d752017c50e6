"""A network on the CPU while other programs want the cores: threads that spin as they wait, and threads that sleep.

    python benchmarks/busy.py

The program `enlcn` lets its threads sleep (enlcn/cli/threads.py); other programs that import the package have OpenMP's
own way, which spins, unless they are started with GOMP_SPINCOUNT=1000. Ways take turns, in processes of their own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import torch

import enlcn
from enlcn.cli.threads import let_threads_sleep

WAYS = ("spinning", "sleeping")
SPIN_FOR_EVER = "while True: pass"


def median_seconds(model: str, side: int, repeats: int) -> float:
    """In the child: the network on side x side pixels, warm."""
    network = enlcn.load(model).eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    lr = torch.rand(1, 3, side, side)
    times = []
    with torch.inference_mode():
        for _ in range(repeats + 2):
            start = time.perf_counter()
            network(lr)
            times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def measure(way: str, arguments: argparse.Namespace) -> float:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_WAIT", "GOMP_SPIN"))}
    if way == "sleeping":
        let_threads_sleep(environment)
    command = [sys.executable, __file__, "--child", "--model", arguments.model]
    command += ["--side", str(arguments.side), "--repeats", str(arguments.repeats)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="enlcn-light-x4")
    parser.add_argument("--side", type=int, default=128, help="of the input")
    parser.add_argument("--repeats", type=int, default=10, help="of which the median is taken")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each way")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2], help="numbers of other programs, a core each")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(median_seconds(arguments.model, arguments.side, arguments.repeats))
        return
    for count in arguments.busy:
        others = [subprocess.Popen([sys.executable, "-c", SPIN_FOR_EVER]) for _ in range(count)]
        try:
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(arguments.rounds):
                for way in WAYS:
                    seconds[way].append(round(measure(way, arguments), 3))
        finally:
            for other in others:
                other.kill()
        print(json.dumps({"other programs": count, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
