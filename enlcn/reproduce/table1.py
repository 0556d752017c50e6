"""Table 1: the quantitative comparison, 14 methods of the paper and every checkpoint at hand."""

from enlcn.errors import UserError
from enlcn.evaluate import evaluate
from enlcn.evaluate import paper as paper_table
from enlcn.evaluate.results import Results
from enlcn.reproduce.material import PAPER_SETS, SEEN
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Table
from enlcn.zoo import native_scale

SCALES = (2, 4)


def measure(context: Context) -> Json:
    """PSNR and SSIM of bicubic and of every network at hand, on every test set at hand."""
    data: Json = {"measured": {}, "absent": {}, "device": None}
    for scale in SCALES:
        sets = context.material.testsets(scale)
        if context.preset.testsets is not None:
            sets = {name: each for name, each in sets.items() if name in context.preset.testsets} or sets
        models = {"bicubic": "bicubic"}
        models |= {name: path for name, path in context.all_models(scale).items() if native_scale(path) == scale}
        results = evaluate(models, list(sets.values()), scale, device=str(context.device))
        data["measured"][str(scale)] = _as_json(results)
        data["absent"][str(scale)] = [name for name in PAPER_SETS if name not in sets]
        data["device"] = results.settings.device
    return data


def _as_json(results: Results) -> Json:
    return {
        model.name: {
            "source": model.source,
            "parameters": model.parameters,
            "scores": {
                testset.name: {
                    "psnr": (mean := results.mean(model.name, testset.name)).psnr_y,
                    "ssim": mean.ssim_y,
                    "images": testset.images,
                }
                for testset in results.testsets
            },
        }
        for model in results.models
    }


def show(data: Json) -> Section:
    """The paper's rows, then ours."""
    tables = [_table(int(scale), models, data["absent"][scale]) for scale, models in data["measured"].items()]
    return Section(
        text=["Rows marked (paper) are the paper's; the others were measured here, as `enlcn evaluate` does."],
        tables=tables,
    )


def _table(scale: int, models: Json, absent: list[str]) -> Table:
    if scale not in SCALES:
        raise UserError(f"the paper has no Table 1 at x{scale}")
    others = [name for model in models.values() for name in model["scores"] if name not in PAPER_SETS]
    names = [*PAPER_SETS, *dict.fromkeys(others)]
    rows: list[list[Cell]] = []
    for method, by_set in paper_table.methods(scale).items():
        rows.append([f"{method} (paper)", None, *(_cell(by_set.get(name)) for name in names)])
    first = len(rows)
    for name, model in models.items():
        figures = [model["scores"].get(each) for each in names]
        cells = [_cell((each["psnr"], each["ssim"])) if each else None for each in figures]
        rows.append([name, f"{model['parameters'] / 1e6:.2f} M" if model["parameters"] else None, *cells])
    notes = (
        [f"Not measured here, because not at hand or not part of this preset: {', '.join(absent)}."] if absent else []
    )
    if SEEN in names:
        notes.append(f"The {SEEN} are those of other tables' rows; no network of this table is trained on them here.")
    if len(models) == 1:
        notes.append(f"No x{scale} network is at hand; give one with --model.")
    columns = [Column("method"), Column("parameters"), *(Column(name) for name in names)]
    return Table(f"x{scale}, PSNR / SSIM on Y", columns, rows, " ".join(notes), breaks=[first])


def _cell(figures: tuple[float, float] | None) -> str | None:
    return f"{figures[0]:.2f} / {figures[1]:.4f}" if figures else None


ITEM = Item("Quantitative comparison", "Table 1", measure, show)
