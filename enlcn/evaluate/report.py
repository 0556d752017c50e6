"""Results as files (JSON, CSV, Markdown, each with the figures of every image) and as the rows of a table."""

import csv
import io
import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from enlcn.evaluate import paper
from enlcn.evaluate.results import Results, Score, TestsetInfo
from enlcn.files import atomic_write, check_writable
from enlcn.version import __version__

REPORT_NAMES = ("results.json", "results.csv", "results.md")
_FIGURES = [field.name for field in fields(Score)]


@dataclass(frozen=True)
class Row:
    """A line of the table: a method, whether the paper reports it, and "PSNR / SSIM" by test set."""

    method: str
    from_paper: bool
    cells: tuple[str, ...]


def table_rows(results: Results, with_paper: bool = False) -> list[Row]:
    """What was measured, and below it, if asked for, what the paper's Table 1 says of the same sets."""
    names = [testset.name for testset in results.testsets]
    rows = []
    for model in results.models:
        means = [results.mean(model.name, name) for name in names]
        rows.append(Row(model.name, False, tuple(_cell(mean.psnr_y, mean.ssim_y) for mean in means)))
    if with_paper and knows_a_set(results):
        for method, by_set in paper.methods(results.settings.scale).items():
            figures = [by_set.get(name) for name in names]
            rows.append(Row(method, True, tuple(_cell(*pair) if pair else "–" for pair in figures)))
    return rows


def knows_a_set(results: Results) -> bool:
    """Whether the paper gives figures for any of the sets, at this scale."""
    methods = paper.methods(results.settings.scale).values()
    return any(testset.name in by_set for testset in results.testsets for by_set in methods)


def describe_settings(results: Results) -> str:
    """The settings in one line."""
    settings = results.settings
    ensemble = ", self-ensemble x8" if settings.self_ensemble else ""
    degraded = f", noise of {settings.noise:g} in LR" if settings.noise else ""
    if settings.jpeg_quality is not None:
        degraded += f", LR from JPEG of quality {settings.jpeg_quality}"
    return (
        f"x{settings.scale}, PSNR / SSIM on Y, shave {settings.shave}, {settings.precision}, "
        f"{settings.mode}{ensemble}{degraded}, {settings.device}"
    )


def describe_testset(testset: TestsetInfo) -> str:
    """A test set in one line."""
    images = "1 image" if testset.images == 1 else f"{testset.images} images"
    return f"{testset.name}: {images}, LR from {testset.lr_source}"


def describe_paper(results: Results, where: str) -> str:
    """Which rows of a table are the paper's; `where` says how they are told apart."""
    if knows_a_set(results):
        degraded = results.settings.noise or results.settings.jpeg_quality is not None
        return f"{where}: {paper.source()}{', of clean LR images' if degraded else ''}"
    scale = results.settings.scale
    return f"the paper has no figures for {'these sets at ' if paper.methods(scale) else ''}x{scale}"


def to_json(results: Results, with_paper: bool = False) -> str:
    """Settings, means and every image; a PSNR that is infinite is written as "inf"."""
    document = {
        "enlcn": __version__,
        "torch": torch.__version__,
        "settings": asdict(results.settings),
        "models": [asdict(model) for model in results.models],
        "testsets": [asdict(testset) for testset in results.testsets],
        "means": [
            {"model": model.name, "testset": testset.name, **_figures(results.mean(model.name, testset.name))}
            for model in results.models
            for testset in results.testsets
        ],
        "images": [
            {"model": each.model, "testset": each.testset, "image": each.image, **_figures(each.score)}
            for each in results.images
        ],
    }
    if with_paper:
        document["paper"] = {"source": paper.source(), "methods": paper.methods(results.settings.scale)}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_csv(results: Results) -> str:
    """One line for every model and image."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    settings = results.settings
    degraded = [f"{settings.noise:g}", "" if settings.jpeg_quality is None else settings.jpeg_quality]
    writer.writerow(["scale", "noise", "jpeg_quality", "model", "testset", "image", *_FIGURES])
    for each in results.images:
        scores = (f"{getattr(each.score, name):.6f}" for name in _FIGURES)
        writer.writerow([settings.scale, *degraded, each.model, each.testset, each.image, *scores])
    return text.getvalue()


def to_markdown(results: Results, with_paper: bool = False) -> str:
    """The table of means, then one table for each set with its images."""
    names = [testset.name for testset in results.testsets]
    lines = [f"# Evaluation x{results.settings.scale}", "", describe_settings(results), ""]
    lines += [f"- {describe_testset(testset)}" for testset in results.testsets]
    rows = table_rows(results, with_paper)
    labelled = [[f"{row.method} (paper)" if row.from_paper else row.method, *row.cells] for row in rows]
    lines += ["", *_markdown_table(["method", *names], labelled)]
    if with_paper:
        lines += ["", f"{describe_paper(results, 'Rows marked (paper)')}."]
    models = [model.name for model in results.models]
    scores = {(each.testset, each.image, each.model): each.score for each in results.images}
    for name in names:
        images = list(dict.fromkeys(each.image for each in results.images if each.testset == name))
        cells = [
            [image, *(_cell(score.psnr_y, score.ssim_y) for model in models if (score := scores[name, image, model]))]
            for image in images
        ]
        lines += ["", f"## {name}", "", *_markdown_table(["image", *models], cells)]
    return "\n".join(lines) + "\n"


def check_report_folder(folder: Path, overwrite: bool) -> None:
    """An error, before any work is done, if a report is there already and may not be replaced, or cannot be written."""
    for name in REPORT_NAMES:
        check_writable(folder / name, overwrite=overwrite)


def write_reports(results: Results, folder: Path, *, with_paper: bool = False, overwrite: bool = False) -> list[Path]:
    """Write results.json, results.csv and results.md."""
    texts = (to_json(results, with_paper), to_csv(results), to_markdown(results, with_paper))
    paths = [folder / name for name in REPORT_NAMES]
    for path, text in zip(paths, texts, strict=True):
        with atomic_write(path, overwrite=overwrite) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return paths


def _cell(psnr: float, ssim: float) -> str:
    return f"{psnr:.2f} / {ssim:.4f}"


def _figures(score: Score) -> dict[str, float | str]:
    return {name: value if math.isfinite(value) else str(value) for name, value in asdict(score).items()}


def _markdown_table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
