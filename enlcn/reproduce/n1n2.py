"""Table 3: the grid of n1 and n2, which rank what counts as relevant and irrelevant in contrastive learning."""

from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from enlcn.reproduce import charts, paper
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import N1N2, RunSpec, specs
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Spread, Table
from enlcn.reproduce.trained_rows import main_set, measure_rows, sets_of, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def needs(preset: Preset) -> list[RunSpec]:
    """Sixteen cells."""
    return specs(list(N1N2.values()), preset.grid_seeds)


def measure(context: Context) -> Json:
    """PSNR of the finished runs, by "n1 n2"."""
    return measure_rows(context, {f"{n1} {n2}": recipe for (n1, n2), recipe in N1N2.items()})


def show(data: Json) -> Section:
    """The grid, ours and the paper's."""
    columns = list(next(iter(paper.N1N2.values())))
    about = main_set(data, "Set5")
    tables = [
        _grid(f"Ours, {title_of(data, name)}, PSNR in dB", columns, partial(_cell, data, name), note=_seeds_note(data))
        for name in sets_of(data)
    ]
    tables.append(_grid("The paper, Set5, PSNR in dB", columns, lambda n1, n2: paper.N1N2[n1][n2], ".2f"))
    seeds = common_seeds(data)
    values = [value for n1, n2 in N1N2 if about and (value := _fair(data, about, n1, n2, seeds)) is not None]
    text = ["n1: share of the features taken as relevant, and as irrelevant; n2: the rank at which the latter begin."]
    if values:
        theirs = [value for row in paper.N1N2.values() for value in row.values()]
        text.append(
            f"From the worst to the best of {len(values)} cells, over the seeds that all of them have "
            f"({', '.join(map(str, seeds))}): ours {max(values) - min(values):.3f} dB on {about}, the paper's "
            f"{max(theirs) - min(theirs):.2f} dB. The spread over seeds stands in the ablation's table; "
            "differences below it are chance."
        )
    return Section(text=text, tables=tables, charts={"n1n2": lambda: _draw(data, about)})


def common_seeds(data: Json) -> list[int]:
    """The seeds that every trained cell was trained with; some cells are rows of other tables, too, and have more."""
    trained = [set(row["seeds"]) for row in data["rows"].values() if row["seeds"]]
    return sorted(set.intersection(*trained)) if trained else []


def _fair(data: Json, testset: str, n1: str, n2: str, seeds: list[int]) -> float | None:
    """A cell's mean PSNR over some seeds, None where it has none of them."""
    row = data["rows"][f"{n1} {n2}"]
    by_seed = dict(zip(row["seeds"], row["psnr"].get(testset, []), strict=False))
    values = [by_seed[seed] for seed in seeds if seed in by_seed]
    return fmean(values) if values else None


def _seeds_note(data: Json) -> str:
    counts = sorted({len(row["seeds"]) for row in data["rows"].values() if row["seeds"]})
    if len(counts) < 2:
        return ""
    return f"Means over all seeds a cell has, {counts[0]} to {counts[-1]}; ± where there are several."


def _cell(data: Json, testset: str, n1: str, n2: str) -> Spread | None:
    return Spread.of(data["rows"][f"{n1} {n2}"]["psnr"].get(testset, []))


def _grid(
    title: str, columns: list[str], value: Callable[[str, str], Cell], spec: str = ".3f", note: str = ""
) -> Table:
    rows: list[list[Cell]] = [[f"n1 = {n1} %", *(value(n1, n2) for n2 in columns)] for n1 in paper.N1N2]
    return Table(title, [Column(""), *(Column(f"n2 = {n2} %", spec) for n2 in columns)], rows, note)


def _draw(data: Json, about: str | None) -> "Figure":
    figure, panels = charts.new_figure(2, width=10)
    seeds = common_seeds(data)
    ours = {n1: {n2: _fair(data, about or "", n1, n2, seeds) for n2 in row} for n1, row in paper.N1N2.items()}
    grids: dict[str, Mapping[str, Mapping[str, float | None]]] = {
        f"ours, {title_of(data, about)}": ours,
        "the paper, Set5": paper.N1N2,
    }
    for axes, (title, grid), spec in zip(panels, grids.items(), (".3f", ".2f"), strict=True):
        values = [[float("nan") if cell is None else cell for cell in row.values()] for row in grid.values()]
        image = axes.imshow(values, cmap="viridis", aspect="auto")
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                # Dark text on the light end of the map.
                low, high = image.get_clim()
                light = value > low + 0.6 * (high - low)
                axes.text(j, i, format(value, spec), ha="center", va="center", color="black" if light else "white")
        axes.set_xticks(range(len(values[0])), [f"{n2} %" for n2 in next(iter(grid.values()))])
        axes.set_yticks(range(len(values)), [f"{n1} %" for n1 in grid])
        axes.set(title=f"PSNR (dB), {title}", xlabel="n2, where irrelevant features begin", ylabel="n1, share of each")
        axes.grid(False)
    return figure


ITEM = Item("n1 and n2 of contrastive learning", "Table 3", measure, show, needs, is_quick=True)
