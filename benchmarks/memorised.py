"""How much a network owes to having seen a photograph: PSNR on Y of training photographs and of held-out ones.

    python benchmarks/memorised.py --model enlcn-light-x4 --data DATA/train [--count 40]

Each photograph is shrunk as it was for training, then with the grid of LR pixels shifted (a shift by whole LR pixels
would change nothing and is left out), and with red and blue exchanged. To a network that has learned what photographs
look like, the three are alike; to one that has learned these photographs by heart, the first is the easiest. Held-out
photographs, and bicubic, show what the changes themselves cost.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor

import enlcn
from enlcn.data.image_io import to_float, to_uint8
from enlcn.data.resize import imresize
from enlcn.data.shards import ImageFile, crop_to_multiple, decode, find_images
from enlcn.errors import UserError
from enlcn.metrics import psnr

SIDE = 384  # of the HR centre that is scored


def shifted(pixels: int) -> Callable[[np.ndarray], np.ndarray]:
    """(H, W, 3) without its first rows and columns."""
    return lambda hr: hr[pixels:, pixels:]


SHIFTS = {f"grid shifted by {pixels}": pixels for pixels in (2, 3)}
VIEWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as trained": shifted(0),
    **{name: shifted(pixels) for name, pixels in SHIFTS.items()},
    "red and blue exchanged": lambda hr: hr[..., ::-1],
}


def centre(hr: np.ndarray, scale: int) -> np.ndarray:
    """(H, W, 3) -> its middle, on the grid, with room for a shift."""
    starts = [max(0, length - SIDE) // 2 // scale * scale for length in hr.shape[:2]]
    return hr[starts[0] : starts[0] + SIDE + scale, starts[1] : starts[1] + SIDE + scale]


def as_batch(image: np.ndarray) -> Tensor:
    """(H, W, 3) -> (1, 3, H, W)."""
    return torch.from_numpy(image).permute(2, 0, 1)[None]


def load(name: str) -> tuple[int, Callable[[Tensor], Tensor]]:
    """Scale, and what makes SR of LR, (1, 3, H, W) uint8 both."""
    if name == "bicubic":
        return 4, lambda lr: as_batch(imresize(lr[0].permute(1, 2, 0).numpy(), 4))
    network = enlcn.load(name)
    return network.config.scale, lambda lr: to_uint8(network(to_float(lr)))


@torch.inference_mode()
def score(upscale: Callable[[Tensor], Tensor], scale: int, hr: np.ndarray) -> float:
    """PSNR on Y of (H, W, 3), the border left out."""
    hr = np.ascontiguousarray(crop_to_multiple(hr, scale)[:SIDE, :SIDE])
    return psnr(upscale(as_batch(imresize(hr, 1 / scale))), as_batch(hr), shave=2 * scale)


def sample(files: Sequence[ImageFile], count: int) -> list[ImageFile]:
    """The same ones every time."""
    if not files:
        raise UserError("--data must hold training photographs, and held-out ones in a folder or tar called val")
    chosen = np.random.default_rng(0).choice(len(files), min(count, len(files)), replace=False)
    return [files[index] for index in sorted(chosen)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="name, file or bicubic (x4); may be given several times")
    parser.add_argument("--data", type=Path, required=True, help="training photographs, as for `enlcn train`")
    parser.add_argument("--count", type=int, default=40, help="photographs of each part")
    options = parser.parse_args()
    parts = {
        "trained on": sample(find_images(options.data), options.count),
        "held out": sample(find_images(options.data, "held-out"), options.count),
    }
    table = Table(title="PSNR on Y in dB", caption=", ".join(f"{len(files)} {part}" for part, files in parts.items()))
    for column in ("model", "photographs", *VIEWS):
        table.add_column(column, justify="left" if column in ("model", "photographs") else "right")
    for name in options.model or ["enlcn-light-x4"]:
        scale, upscale = load(name)
        views = {label: view for label, view in VIEWS.items() if label not in SHIFTS or SHIFTS[label] % scale}
        for part, files in parts.items():
            pictures = (centre(decode(file), scale) for file in files)
            scores = [
                [score(upscale, scale, view(picture)) for view in views.values()]
                for picture in track(pictures, f"{Path(name).stem}, {part}", len(files), transient=True)
            ]
            means = dict(zip(views, map(fmean, zip(*scores, strict=True)), strict=True))
            cells = (f"{means[label]:.2f}" if label in means else "-" for label in VIEWS)
            table.add_row(Path(name).stem, part, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
