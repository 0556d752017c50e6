"""What the bundled weights do to the bundled photo: `python -m enlcn.demo` (`make demo`).

The photo is shrunk to a quarter and brought back, by bicubic interpolation and by the network: only so there is an
original to compare with. Then it is upscaled itself.
"""

import argparse
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from enlcn.data.image_io import Image, save_image
from enlcn.evaluate import Evaluated, evaluate
from enlcn.evaluate.crops import GAP, Panel, draw_row
from enlcn.files import check_folder
from enlcn.upscaling import upscale

MODEL = "enlcn-light-x4"
PHOTO = "palace.png"
SCALE = 4
ZOOM = 2  # whole pixels, so that the comparison is large enough to look at


def main() -> None:
    """Write both pictures, say how much is gained and where they are."""
    parser = argparse.ArgumentParser(prog="python -m enlcn.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the pictures (default: out)")
    folder: Path = parser.parse_args().out
    check_folder(folder)  # before the work
    with as_file(files("enlcn") / "assets" / PHOTO) as photo:
        restored = restore(photo)
        larger = upscale(photo, SCALE, model=MODEL)
    comparison, enlarged = folder / "demo-comparison.png", folder / "demo-x4.png"
    save_image(side_by_side(restored), comparison, overwrite=True)
    save_image(larger, enlarged, overwrite=True)
    # Rounded before they are subtracted: all three figures are shown.
    ours, bicubic = (round(restored.scores[name].psnr_y, 2) for name in (MODEL, "bicubic"))
    height, width = restored.lr.shape[-2:]
    print(
        f"{PHOTO} from {width}x{height} to {width * SCALE}x{height * SCALE}: bicubic {bicubic:.2f} dB, {MODEL} "
        f"{ours:.2f} dB PSNR: a gain of {ours - bicubic:.2f} dB"
    )
    print(f"bicubic and ours side by side: {comparison}")
    print(f"the photo itself, {SCALE} times as wide and high: {enlarged}")


def restore(photo: Path) -> Evaluated:
    """The photo shrunk, and brought back by bicubic interpolation and by the network."""
    from enlcn.data.testsets import BenchmarkSet, ImagePair

    found: list[Evaluated] = []
    alone = BenchmarkSet("demo", SCALE, photo.parent, (ImagePair(photo.stem, photo, None),))
    evaluate(["bicubic", MODEL], [alone], SCALE, device="cpu", on_image=found.append)
    return found[0]


def side_by_side(restored: Evaluated) -> Image:
    """Bicubic on the left, ours on the right, with what they are beneath."""
    panels = []
    for name, title in (("bicubic", "bicubic"), (MODEL, f"ours ({MODEL})")):
        pixels = restored.sr[name][0].permute(1, 2, 0).numpy()
        zoomed = pixels.repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
        panels.append(Panel(np.ascontiguousarray(zoomed), (title, f"{restored.scores[name].psnr_y:.2f} dB")))
    row = np.asarray(draw_row(panels))
    return Image(np.pad(row, ((GAP, GAP), (GAP, GAP), (0, 0)), constant_values=255))


if __name__ == "__main__":
    from enlcn.cli.console import run_guarded

    run_guarded(main)
