"""Whole runs of `enlcn upscale` on this CPU, with freed memory kept by the program and given back to the system.

    python benchmarks/freed_memory.py [--model enlcn-light-x4] [--sides 256 512 1024] [--rounds 3]

The program keeps it (enlcn/freed_memory.py) unless the user has set one of glibc's MALLOC_ variables; the second way
sets one to what it is anyway. Ways take turns; of each, the fastest run is told, from the command to the finished
file, with the time that the system worked for it and its peak memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from enlcn.data.image import Image
from enlcn.data.image_io import load_image, save_image
from enlcn.data.resize import imresize

PHOTO = Path(__file__).parents[1] / "enlcn" / "assets" / "palace.png"
WAYS = {"kept": {}, "given back": {"MALLOC_ARENA_TEST": "8"}}


def run(way: str, command: list[str]) -> dict[str, float]:
    """Seconds in all, of them the system's, and the peak of memory in MiB."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | WAYS[way]
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{' '.join(command)}: failed")
    return {"seconds": round(seconds, 2), "system": round(usage.ru_stime, 2), "MiB": usage.ru_maxrss >> 10}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="enlcn-light-x4")
    parser.add_argument("--sides", type=int, nargs="+", default=[256, 512, 1024], help="of square inputs")
    parser.add_argument("--options", default="", help="more of `enlcn upscale`, such as '--mode streaming'")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each way")
    arguments = parser.parse_args()
    photo = load_image(PHOTO)
    with tempfile.TemporaryDirectory() as folder, Console(stderr=True).status("") as status:
        for side in arguments.sides:
            source, target = Path(folder, f"{side}.png"), Path(folder, "large.png")
            save_image(Image(imresize(photo.pixels, size=(side, side))), source, overwrite=True)
            command = [sys.executable, "-m", "enlcn", "-q", "upscale", str(source), "-o", str(target), "--overwrite"]
            command += ["--device", "cpu", "-m", arguments.model, *arguments.options.split()]
            runs: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for turn in range(arguments.rounds):
                for way, done in runs.items():
                    status.update(f"{side}x{side}, {way}, {turn + 1} of {arguments.rounds}")
                    done.append(run(way, command))
            best = {way: min(done, key=lambda each: each["seconds"]) for way, done in runs.items()}
            print(json.dumps({"side": side, **best}), flush=True)


if __name__ == "__main__":
    main()
