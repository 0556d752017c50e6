"""`enlcn evaluate`: PSNR and SSIM of models on test sets, as a table, files and pictures."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enlcn.cli import console
from enlcn.data.degradation_ranges import check_jpeg_quality, check_noise
from enlcn.errors import UserError

if TYPE_CHECKING:
    from enlcn.data.testsets import BenchmarkSet
    from enlcn.evaluate import Evaluated, Results


def evaluate(
    model: Annotated[
        list[str],
        typer.Option("--model", "-m", help="A checkpoint, a run's folder, a model's name, or bicubic; repeatable."),
    ],
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            "-d",
            help="A folder of HR images, a test set in one of the usual layouts, a folder of known sets, or the name "
            "of one (Set5, Set14, B100, Urban100, Manga109), sought under $ENLCN_DATA; repeatable.",
        ),
    ],
    scale: Annotated[int, typer.Option("--scale", "-s", min=2, help="Upscaling factor.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for results.json, results.csv and results.md.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Print the paper's Table 1 beside our figures.")] = False,
    self_ensemble: Annotated[
        bool, typer.Option("--self-ensemble", help="Take the mean over eight flips and rotations.")
    ] = False,
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16.")] = "fp32",
    mode: Annotated[str, typer.Option(help="whole image at once, or streaming: the same in bounded memory.")] = "whole",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps …")] = "auto",
    border: Annotated[
        str, typer.Option(help="Border rule for LR images that have to be made: mirror, or clamp as older MATLABs.")
    ] = "mirror",
    noise: Annotated[
        float, typer.Option(metavar="S", help="Add Gaussian noise of S grey levels to LR images, the same each time.")
    ] = 0.0,
    jpeg: Annotated[
        int | None, typer.Option(metavar="QUALITY", help="Have LR images go through JPEG files of this quality.")
    ] = None,
    save_images: Annotated[
        Path | None, typer.Option("--save-images", metavar="DIR", help="Write SR images to DIR/MODEL/SET/.")
    ] = None,
    crops: Annotated[
        Path | None,
        typer.Option(
            "--crops", metavar="PNG", help="Draw LR, bicubic, each model and HR side by side, a row for each set."
        ),
    ] = None,
    crop: Annotated[
        str | None,
        typer.Option("--crop", metavar="X,Y,W,H", help="Which crop, in HR pixels. Default: where models differ most."),
    ] = None,
    crop_image: Annotated[
        list[str] | None,
        typer.Option("--crop-image", metavar="NAME", help="An image to draw crops of, NAME or SET/NAME; repeatable."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Measure PSNR and SSIM of models on test sets, as the field does: on Y, without a border of SCALE pixels."""
    box = _parse_box(crop) if crop else None
    check_noise(noise, "--noise")
    check_jpeg_quality(jpeg, "--jpeg")
    if (crop or crop_image) and not crops:
        raise UserError("--crop and --crop-image belong to --crops; give it a file name")

    from enlcn.data.testsets import find_testsets

    # Before torch is imported: what is wrong here is told at once.
    testsets = [testset for source in data for testset in find_testsets(source, scale)]
    _check_images(crop_image or [], testsets)

    from enlcn.data.image_formats import format_for_path
    from enlcn.data.image_io import save_image
    from enlcn.data.resize import BORDERS
    from enlcn.evaluate import Evaluated, Settings
    from enlcn.evaluate import evaluate as run
    from enlcn.evaluate.crops import CropCollector
    from enlcn.evaluate.report import check_report_folder, write_reports
    from enlcn.files import check_folder, check_writable
    from enlcn.zoo import fetch_remote

    if border not in BORDERS:
        raise UserError(f"--border is '{border}'; choose from {', '.join(BORDERS)}")
    if out:
        check_report_folder(out, overwrite)
    if crops:
        format_for_path(crops)
        check_writable(crops, overwrite=overwrite)
    if save_images:
        check_folder(save_images)
    collector = CropCollector(Settings(scale, scale), box, tuple(crop_image or ())) if crops else None

    fetch_remote(model)
    with console.progress_bar() as bar:
        task = bar.add_task("reading", total=None)

        def show(evaluated: Evaluated) -> None:
            if save_images:
                _save(evaluated, scale, save_images, overwrite)
            if collector:
                collector(evaluated)
            bar.update(task, advance=1, description=console.escape(f"{evaluated.testset}/{evaluated.image}"))

        results = run(
            model,
            testsets,
            scale,
            device=device,
            precision=precision,
            self_ensemble=self_ensemble,
            mode=mode,
            noise=noise,
            jpeg_quality=jpeg,
            border=border,  # type: ignore[arg-type]  # checked above
            on_start=lambda images: bar.update(task, total=images),
            on_image=show,
        )
    _print_table(results, paper)
    if out:
        for path in write_reports(results, out, with_paper=paper, overwrite=overwrite):
            console.say(f"written: {path}")
    if collector and crops:
        save_image(collector.picture(), crops, overwrite=overwrite)
        console.say(f"drawn: {crops}")
    if save_images:
        console.say(f"SR images: {save_images}")


def _print_table(results: "Results", with_paper: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from enlcn.evaluate.report import describe_paper, describe_settings, describe_testset, table_rows

    table = Table(title=describe_settings(results), title_justify="left")
    table.add_column("method")
    for testset in results.testsets:
        table.add_column(escape(testset.name), justify="right", no_wrap=True)
    for row in table_rows(results):
        table.add_row(escape(row.method), *row.cells)
    table.add_section()
    for row in table_rows(results, with_paper)[len(results.models) :]:
        table.add_row(row.method, *row.cells, style="dim")
    console.out.print(table)
    for testset in results.testsets:
        console.say(describe_testset(testset))
    if with_paper:
        console.say(describe_paper(results, "below the line"))


def _check_images(wanted: list[str], testsets: list["BenchmarkSet"]) -> None:
    there = {pair.name for testset in testsets for pair in testset.pairs}
    there |= {f"{testset.name}/{pair.name}" for testset in testsets for pair in testset.pairs}
    for name in wanted:
        if name not in there:
            raise UserError(f"--crop-image is '{name}', which is in none of the test sets")


def _save(evaluated: "Evaluated", scale: int, folder: Path, overwrite: bool) -> None:
    from enlcn.data.image_io import Image, save_image

    for name, sr in evaluated.sr.items():
        path = folder / _as_folder(name) / _as_folder(evaluated.testset) / f"{evaluated.image}_x{scale}.png"
        save_image(Image(sr[0].permute(1, 2, 0).numpy()), path, overwrite=overwrite)


def _as_folder(name: str) -> str:
    """A model's or set's name, which may be a path, as the name of one folder."""
    return re.sub(r"[^\w.+-]+", "_", name).strip("_")


def _parse_box(text: str) -> tuple[int, int, int, int]:
    try:
        x, y, width, height = map(int, text.split(","))
    except ValueError:
        raise UserError(f"--crop is '{text}'; give it as X,Y,W,H in HR pixels, for example 120,80,64,64") from None
    return x, y, width, height
