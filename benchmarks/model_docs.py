"""The generated parts of the documents on shipped models: docs/results.md's tables and the facts of each card.

Both are made of the listed rows alone, and replace what stands between two markers; all other text is left as it is.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from enlcn.config import SCALES
from enlcn.errors import UserError
from enlcn.evaluate import paper
from enlcn.files import atomic_write
from enlcn.zoo.manifest import Scores, ShippedModel

TESTSETS = ("Set5", "Set14", "B100")
FACTS = ('<!-- facts: written by benchmarks/ship_model.py; edit nothing up to "facts end" -->', "<!-- facts end -->")
TABLES = (
    '<!-- models: written by benchmarks/ship_model.py; edit nothing up to "models end" -->',
    "<!-- models end -->",
)

# PSNR by scale as published, by the authors or by those who compare with them (None: not at hand): method,
# parameters, Set5, Set14, B100.
PUBLISHED = {
    2: (
        ("VDSR", "0.7 M", 37.53, 33.03, 31.90),
        ("EDSR-baseline", "1.4 M", 37.99, 33.57, 32.16),
        ("IMDN", "0.7 M", 38.00, 33.63, 32.19),
        ("SwinIR-light", "0.9 M", 38.14, 33.86, 32.31),
    ),
    3: (
        ("VDSR", "0.7 M", 33.66, 29.77, 28.82),
        ("EDSR-baseline", "1.6 M", 34.37, 30.28, 29.09),
        ("IMDN", "0.7 M", 34.36, 30.32, 29.09),
        ("SwinIR-light", "0.9 M", 34.62, 30.54, 29.20),
    ),
    4: (
        ("VDSR", "0.7 M", 31.35, 28.01, 27.29),
        ("EDSR-baseline", "1.5 M", 32.09, 28.58, 27.57),
        ("IMDN", "0.7 M", 32.21, 28.58, 27.56),
        ("LKDN", "0.3 M", 32.39, 28.79, 27.69),
        ("SwinIR-light", "0.9 M", 32.44, 28.77, 27.69),
        ("HPINet-M", "0.9 M", 32.63, 28.88, None),
    ),
}
SOURCES = (
    ("VDSR", "Kim and others, Accurate Image Super-Resolution Using Very Deep Convolutional Networks, CVPR 2016"),
    ("EDSR-baseline", "Lim and others, Enhanced Deep Residual Networks for Single Image Super-Resolution, CVPRW 2017"),
    (
        "IMDN",
        "Hui and others, Lightweight Image Super-Resolution with Information Multi-distillation Network, ACM MM 2019",
    ),
    (
        "LKDN",
        "Xie and others, Large Kernel Distillation Network for Efficient Single Image Super-Resolution, CVPRW 2023",
    ),
    ("SwinIR-light", "Liang and others, SwinIR: Image Restoration Using Swin Transformer, ICCVW 2021"),
    (
        "HPINet-M",
        "Liu and others, From Coarse to Fine: Hierarchical Pixel Integration for Lightweight Image Super-Resolution, "
        "AAAI 2023",
    ),
    (
        "Table 1",
        "Xia and others, Efficient Non-Local Contrastive Attention for Image Super-Resolution, AAAI 2022 (the paper)",
    ),
)
# Rows of the paper's Table 1 that are shown beside ours, with their parameters.
FROM_PAPER = {"EDSR": "43 M", "ENLCN": "43.6 M"}


def refresh(root: Path, models: Iterable[ShippedModel]) -> list[Path]:
    """Write what is outdated; the files written."""
    texts = _texts(root, list(models))
    changed = [path for path, text in texts.items() if not path.is_file() or path.read_text() != text]
    for path in changed:
        with atomic_write(path, overwrite=True) as temporary:
            temporary.write_text(texts[path])
    return changed


def stale(root: Path, models: Iterable[ShippedModel]) -> list[Path]:
    """The files that `refresh` would write."""
    texts = _texts(root, list(models))
    return [path for path, text in texts.items() if not path.is_file() or path.read_text() != text]


def _texts(root: Path, models: list[ShippedModel]) -> dict[Path, str]:
    results = root / "docs" / "results.md"
    texts = {results: _between(results.read_text(), TABLES, results_tables(models), results)}
    template = (root / "docs" / "models" / "template.md").read_text()
    for model in models:
        path = root / "docs" / "models" / f"{model.name}.md"
        text = path.read_text() if path.is_file() else _filled(template, model)
        texts[path] = _between(text, FACTS, facts(model), path)
    return texts


def results_tables(models: list[ShippedModel]) -> str:
    """One table for each scale, then the commands."""
    lines: list[str] = []
    for scale in reversed(SCALES):
        rows = [model for model in models if model.scale == scale]
        if not rows:
            continue
        lines += [
            f"### x{scale}",
            "",
            f"| | parameters | file | CPU | {' | '.join(TESTSETS)} |",
            "|---|---|---|---|---|---|---|",
        ]
        bicubic = next((model.bicubic for model in rows if model.bicubic), {})
        lines.append(f"| bicubic | | | | {_cells(bicubic)} |")
        lines += [
            f"| [{model.name}](models/{model.name}.md) | {model.parameters / 1e6:.2f} M | {_mib(model.size)} | "
            f"{_seconds(model)} | {_cells(model.scores)} |"
            for model in rows
        ]
        lines += [f"| {name}, published | {size} | | | {cells} |" for name, size, cells in _others(scale)]
        lines.append("")
    lines += [
        "CPU: 128x128 upscaled on two threads, warm, fp32, the best within ten seconds. The scores come from:",
        "",
        "```sh",
    ]
    lines += [f"{model.scores_command}  # {model.scores_from}" for model in models if model.scores]
    lines += ["python benchmarks/ship_model.py --name NAME  # scores and time once more, and these tables", "```", ""]
    lines += ["Published figures, as their authors or later comparisons give them:", ""]
    lines += [f"- {method}: {source}." for method, source in SOURCES]
    return "\n".join(lines)


def facts(model: ShippedModel) -> str:
    """What a card says of a model's file, training and scores."""
    where = f"`weights/{model.name}/`, in {len(model.file.parts)} parts" if model.file.parts else "inside the package"
    rows = [
        ("network", model.network),
        ("scale", f"x{model.scale}"),
        ("parameters", f"{model.parameters:,}"),
        ("file", f"`{model.file.whole.name}`, fp16, {_mib(model.size)}, {where}"),
        ("SHA-256", f"`{model.sha256}`"),
        ("recipe", model.recipe),
        ("steps", "" if model.steps is None else f"{model.steps:,}"),
        ("seed", "" if model.seed is None else str(model.seed)),
        ("trained on", model.hardware),
        ("CPU time", "" if model.cpu_seconds is None else f"{_seconds(model)} for 128x128 on two threads, warm, fp32"),
        ("licence", model.licence),
    ]
    lines = ["| | |", "|---|---|", *(f"| {label} | {value} |" for label, value in rows if value), ""]
    lines += ["## Scores", "", f"| PSNR / SSIM on Y | {' | '.join(TESTSETS)} |", "|---|---|---|---|"]
    lines += [f"| {model.name} | {_cells(model.scores)} |"]
    lines += [f"| bicubic | {_cells(model.bicubic)} |"] if model.bicubic else []
    return "\n".join([*lines, "", f"    {model.scores_command}", "", f"({model.scores_from}.)"])


def _others(scale: int) -> Iterable[tuple[str, str, str]]:
    """(method, parameters, cells) of published networks."""
    for name, size, *figures in PUBLISHED[scale]:
        yield name, size, " | ".join("–" if figure is None else f"{figure:.2f}" for figure in figures)
    for name, by_set in paper.methods(scale).items():
        if name in FROM_PAPER:
            cells = _cells({testset: pair for testset in TESTSETS if (pair := by_set.get(testset))})
            yield f"{name} (the paper's Table 1)", FROM_PAPER[name], cells


def _cells(scores: Scores) -> str:
    return " | ".join("{:.2f} / {:.4f}".format(*scores[name]) if name in scores else "–" for name in TESTSETS)


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _seconds(model: ShippedModel) -> str:
    return "–" if model.cpu_seconds is None else f"{model.cpu_seconds:.2f} s"


def _filled(template: str, model: ShippedModel) -> str:
    return template.replace("{name}", model.name).replace("{description}", model.description)


def _between(text: str, markers: tuple[str, str], inside: str, path: Path) -> str:
    first, last = map(re.escape, markers)
    pattern = re.compile(f"({first}\n).*?({last})", re.DOTALL)
    if not pattern.search(text):
        raise UserError(f"{path}: lacks the markers {markers[0]} and {markers[1]}")
    return pattern.sub(lambda found: f"{found[1]}{inside}\n{found[2]}", text, count=1)
