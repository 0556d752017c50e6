"""Peak memory and disk of `enlcn upscale` on pictures that do not fit: 24 and 48 megapixels at x4.

    python benchmarks/large.py [--model FILE] [--sizes 6000x4000 6000x8000] [--memory-limit 2G] [--json FILE]

The program runs as a process of its own; its peak resident memory (VmHWM) is read from /proc while it runs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

PHOTO = Path(__file__).parents[1] / "enlcn" / "assets" / "palace.png"
LIMIT = 3e9


def make_input(path: Path, width: int, height: int) -> None:
    """The bundled photo, repeated to the size wanted, with a slope over it so that no two copies are equal."""
    photo = np.asarray(Image.open(PHOTO).convert("RGB")).astype(np.uint16)
    repeats = (-(-height // photo.shape[0]), -(-width // photo.shape[1]), 1)
    tiled = np.tile(photo, repeats)[:height, :width]
    slope = np.linspace(128, 255, width, dtype=np.uint16)[None, :, None]
    Image.fromarray((tiled * slope // 255).astype(np.uint8)).save(path, compress_level=1)


def peak_memory(process: subprocess.Popen[str]) -> int:
    """VmHWM of a process in bytes, watched until it ends."""
    peak = 0
    while process.poll() is None:
        try:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except OSError:
            break
        time.sleep(0.05)
    return peak


def measure(model: str, width: int, height: int, memory_limit: str, folder: Path) -> dict[str, object]:
    source, target, report = folder / "in.png", folder / "out.tif", folder / "report.json"
    make_input(source, width, height)
    command = [sys.executable, "-m", "enlcn", "upscale", str(source), "-o", str(target), "-m", model, "--overwrite"]
    command += ["--memory-limit", memory_limit, "--report", str(report), "--device", "cpu"]
    start = time.perf_counter()
    process = subprocess.Popen(command, text=True)
    peak = peak_memory(process)
    if process.wait() != 0:
        raise SystemExit(f"enlcn upscale ended with exit code {process.returncode}")
    outcome = json.loads(report.read_text())[0]
    return {
        "input": f"{width}x{height}",
        "output": "x".join(map(str, outcome["sr_size"])),
        "mode": outcome["mode"],
        "tile": outcome["tile"],
        "peak_bytes": peak,
        "scratch_bytes": outcome["disk"],
        "file_bytes": target.stat().st_size,
        "seconds": time.perf_counter() - start,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="untrained:enlcn-tiny-x4")
    parser.add_argument("--sizes", nargs="+", default=["6000x4000", "6000x8000"])
    parser.add_argument("--memory-limit", default="2G")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = Table(title=f"{options.model}, --memory-limit {options.memory_limit}")
    for heading in ("input", "output", "mode", "tile", "peak memory", "scratch", "file", "time"):
        table.add_column(heading, justify="right")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            width, height = map(int, size.split("x"))
            row = measure(options.model, width, height, options.memory_limit, Path(folder))
            rows.append(row)
            gigabytes = [f"{float(str(row[k])) / 1e9:.2f} GB" for k in ("peak_bytes", "scratch_bytes", "file_bytes")]
            cells = [str(row[k]) for k in ("input", "output", "mode", "tile")]
            table.add_row(*cells, *gigabytes, f"{float(str(row['seconds'])):.0f} s")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2))
    if any(float(str(row["peak_bytes"])) > LIMIT for row in rows):
        raise SystemExit("peak memory is over 3 GB")


if __name__ == "__main__":
    main()
