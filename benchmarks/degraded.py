"""What becomes of inputs that are not clean: PSNR on Y where the LR images carry JPEG artefacts or noise.

    python benchmarks/degraded.py [--model enlcn-light-x4 --model enlcn-photo-x4] [--data Set5]

In brackets what each model gains over bicubic interpolation. Noise is Gaussian, its deviation given in grey levels of
255. One row alone: `enlcn evaluate --jpeg 75` or `--noise 5`.
"""

import argparse

from rich.console import Console
from rich.progress import track
from rich.table import Table

from enlcn.evaluate import evaluate
from enlcn.zoo import native_scale

INPUTS: dict[str, tuple[float, int | None]] = {
    "clean": (0.0, None),
    "JPEG, quality 95": (0.0, 95),
    "JPEG, quality 90": (0.0, 90),
    "JPEG, quality 75": (0.0, 75),
    "JPEG, quality 50": (0.0, 50),
    "JPEG, quality 30": (0.0, 30),
    "noise of 5": (5.0, None),
    "noise of 10": (10.0, None),
    "noise of 5, JPEG, quality 75": (5.0, 75),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="repeatable (default: enlcn-light-x4)")
    parser.add_argument("--data", default="Set5")
    options = parser.parse_args()
    models = options.model or ["enlcn-light-x4"]
    scale = native_scale(models[0])
    table = Table(title=f"{options.data} x{scale}, PSNR on Y in dB")
    for heading in ("input", "bicubic", *models):
        table.add_column(heading, justify="right")
    for name, (noise, quality) in track(INPUTS.items(), "upscaling", console=Console(stderr=True), transient=True):
        results = evaluate(
            ["bicubic", *models],
            [options.data],
            scale,
            device="cpu",
            border="clamp",  # the rule by which the LR files of these sets were made, for scales that have none
            noise=noise,
            jpeg_quality=quality,
        )
        (testset,) = results.testsets
        plain, *ours = (results.mean(model.name, testset.name).psnr_y for model in results.models)
        table.add_row(name, f"{plain:.2f}", *(f"{each:.2f} ({each - plain:+.2f})" for each in ours))
    Console().print(table)


if __name__ == "__main__":
    main()
