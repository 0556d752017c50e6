"""What becomes of inputs that are not clean: PSNR on Y where the LR images carry JPEG artefacts or noise.

    python benchmarks/degraded.py [--model enlcn-light-x4] [--data Set5]

The networks were trained on clean, bicubically shrunk photographs; bicubic interpolation is the yardstick. Noise is
Gaussian with a fixed seed, its deviation given in grey levels of 255.
"""

import argparse
import io
from collections.abc import Callable
from statistics import fmean

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

from enlcn.data.image_io import to_float, to_uint8
from enlcn.data.resize import imresize_torch
from enlcn.data.testsets import find_testsets, load_pair
from enlcn.metrics import psnr
from enlcn.upscaling import upscale
from enlcn.zoo import native_scale


def as_jpeg(quality: int) -> Callable[[Tensor], Tensor]:
    """(1, 3, H, W) uint8 through a JPEG file."""

    def degrade(lr: Tensor) -> Tensor:
        file = io.BytesIO()
        Image.fromarray(lr[0].permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality)
        return torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)[None]

    return degrade


def with_noise(deviation: float) -> Callable[[Tensor], Tensor]:
    """(1, 3, H, W) uint8 plus Gaussian noise."""

    def degrade(lr: Tensor) -> Tensor:
        noise = torch.randn(lr.shape, generator=torch.Generator().manual_seed(0))
        return (lr + deviation * noise).round().clamp(0, 255).byte()

    return degrade


INPUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "clean": lambda lr: lr,
    "JPEG, quality 90": as_jpeg(90),
    "JPEG, quality 75": as_jpeg(75),
    "JPEG, quality 50": as_jpeg(50),
    "noise of 5": with_noise(5),
    "noise of 10": with_noise(10),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="enlcn-light-x4")
    parser.add_argument("--data", default="Set5")
    options = parser.parse_args()
    scale = native_scale(options.model)
    (testset,) = find_testsets(options.data, scale)
    pairs = [load_pair(pair, scale, "clamp") for pair in testset.pairs]
    table = Table(title=f"{testset.name} x{scale}, PSNR on Y in dB")
    for heading in ("input", "bicubic", options.model, "gain"):
        table.add_column(heading, justify="right")
    for name, degrade in track(INPUTS.items(), "upscaling", console=Console(stderr=True), transient=True):
        ours, plain = [], []
        for lr, hr in pairs:
            degraded = degrade(lr)
            sr = to_uint8(upscale(to_float(degraded)[0], scale, model=options.model, device="cpu", precision="fp32"))
            ours.append(psnr(sr[None], hr, shave=scale))
            plain.append(psnr(imresize_torch(degraded, float(scale)), hr, shave=scale))
        table.add_row(name, f"{fmean(plain):.2f}", f"{fmean(ours):.2f}", f"{fmean(ours) - fmean(plain):+.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
