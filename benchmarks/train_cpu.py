"""A small ENLCN trained on a CPU within ten minutes beats bicubic on Set5 x2 by at least 1 dB.

    ENLCN_DATA=DATA python benchmarks/train_cpu.py [--out RUN] [--budget 540] [--threads 2]

Trains the recipe cpu-x2 on DATA/train/train-00.tar (342 photographs), decoding counted in; DATA holds train/ and
benchmarks/. Ends with an error where the gain is smaller.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console

from enlcn.evaluate import evaluate
from enlcn.train.recipes import recipe
from enlcn.train.start import Job, train

RECIPE = "cpu-x2"
REQUIRED_GAIN = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the run's folder; a temporary one unless told")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds of decoding and training")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    data = os.environ.get("ENLCN_DATA")
    if not data:
        sys.exit("set ENLCN_DATA to the folder that holds train/ and benchmarks/")

    torch.set_num_threads(options.threads)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        out = options.out or Path(temporary) / "run"
        job = Job(
            recipe(RECIPE),
            data=Path(data, "train", "train-00.tar"),
            validation=Path(data, "train", "val.tar"),
            out=out,
            budget=options.budget,
            cache=Path(temporary) / "cache",
            device="cpu",
            tensorboard=False,
        )
        outcome = train(job, console=Console(stderr=True))
        seconds = time.monotonic() - started
        results = evaluate(
            {"bicubic": "bicubic", "network": out / "model.safetensors"},
            [Path(data, "benchmarks", "Set5")],
            scale=job.config.model.scale,
            device="cpu",
        )
    scores = {name: results.mean(name, "Set5") for name in ("bicubic", "network")}
    print(f"{RECIPE}: {outcome.step} steps in {seconds:.0f} s on {options.threads} threads")
    for name, score in scores.items():
        print(f"Set5 x2, {name}: PSNR {score.psnr_y:.2f} dB, SSIM {score.ssim_y:.4f}")
    gain = scores["network"].psnr_y - scores["bicubic"].psnr_y
    print(f"gain over bicubic: {gain:+.2f} dB")
    if gain < REQUIRED_GAIN:
        sys.exit(f"the gain is below {REQUIRED_GAIN} dB")


if __name__ == "__main__":
    main()
