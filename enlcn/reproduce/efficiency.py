"""Table 4: what attention costs at 100 x 100 with 64 channels, exactly, and PSNR against the number of features m."""

import re
from typing import TYPE_CHECKING

from enlcn.cost import conv3x3_flops, enlca_flops, nla_flops, nlsa_flops
from enlcn.reproduce import charts, paper
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import EFFICIENCY, RunSpec, specs
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Table
from enlcn.reproduce.trained_rows import gains, main_set, measure_rows, psnr_table, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POSITIONS, CHANNELS = 100 * 100, 64
_PAPER = {row: psnr for row, (_, psnr) in paper.EFFICIENCY.items()}
_REFERENCE = "baseline"


def needs(preset: Preset) -> list[RunSpec]:
    """Baseline, NLA, NLSA, and ENLCA at eight m."""
    return specs(list(EFFICIENCY.values()), preset.sweep_seeds)


def flops_of(row: str) -> int:
    """Operations of a row's module, a multiply-add counted as two; as the paper, without 1x1 projections and D."""
    if row == _REFERENCE:
        return 0
    if row == "NLA":
        return nla_flops(POSITIONS, CHANNELS, CHANNELS)
    if row.startswith("NLSA"):
        return nlsa_flops(POSITIONS, CHANNELS, CHANNELS)
    if row.startswith("ENLCA"):
        return enlca_flops(POSITIONS, CHANNELS, CHANNELS, int(row.rpartition("m")[2]))
    return conv3x3_flops(POSITIONS, CHANNELS, CHANNELS)


def measure(context: Context) -> Json:
    """Operations of every row, PSNR of the finished runs where there is something to train on."""
    trained = measure_rows(context, EFFICIENCY) if context.steps else {"rows": {}}
    return {**trained, "flops": {row: flops_of(row) for row in paper.EFFICIENCY}}


def show(data: Json) -> Section:
    """Operations and PSNR."""
    rows: list[list[Cell]] = [
        [row, theirs, data["flops"][row] / 1e9, data["flops"][row] / 1e9 / theirs - 1 if theirs else None]
        for row, (theirs, _) in paper.EFFICIENCY.items()
    ]
    flops = Table(
        "One module at 100 x 100, 64 channels in and out, GFLOPs",
        [Column("module"), Column("paper"), Column("ours", ".4f"), Column("difference", "+.1%")],
        rows,
        "Counted, not timed: a multiply-add is two operations; 1x1 projections and the normaliser are left out, as the "
        "paper does. The paper rounds to two digits. Its 5.08 for NLSA is not explained there: four rounds of 144 "
        "positions that see three buckets are what is counted here.",
    )
    if not data["rows"]:
        return Section(text=["No networks were trained for PSNR: that needs pictures (`--data`)."], tables=[flops])
    psnr = psnr_table(
        data,
        "PSNR of trained networks",
        paper=_PAPER,
        paper_set="Urban100",
        reference=_REFERENCE,
        first="attention",
    )
    return Section(tables=[flops, psnr], charts={"efficiency": lambda: _draw(data)})


def _draw(data: Json) -> "Figure":
    about = main_set(data, "Urban100")
    figure, (axes,) = charts.new_figure(width=8)
    points = [(int(match[1]), row) for row in data["rows"] if (match := re.fullmatch(r"ENLCA-m(\d+)", row))]
    points.sort()
    measured = [(m, spread) for m, row in points if about and (spread := gains(data, row, _REFERENCE, about))]
    if measured:
        axes.errorbar(
            [m for m, _ in measured],
            [spread.mean for _, spread in measured],
            [spread.deviation or 0 for _, spread in measured],
            **charts.ours(label=f"ENLCA, ours, {title_of(data, about)}"),
        )
    base = _PAPER[_REFERENCE] or 0.0
    axes.plot(
        [m for m, _ in points],
        [(_PAPER[row] or base) - base for _, row in points],
        **charts.papers(label="ENLCA, the paper, Urban100"),
    )
    for row, line, colour in (("NLA", ":", charts.GREEN), ("NLSA-r4", "-.", charts.VERMILION)):
        spread = gains(data, row, _REFERENCE, about) if about else None
        if spread is not None:
            axes.axhline(spread.mean, linestyle=line, color=colour, label=f"{row}, ours")
        axes.axhline((_PAPER[row] or base) - base, linestyle=line, color="#aaaaaa", label=f"{row}, the paper")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks([m for m, _ in points], [str(m) for m, _ in points])
    axes.set(
        title="Fewer random features",
        xlabel="m, number of random features (cost is proportional to it)",
        ylabel="gain over no attention (dB)",
    )
    axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return figure


ITEM = Item(
    "Efficiency: GFLOPs and PSNR against m", "Table 4", measure, show, needs, is_quick=True, needs_pictures=False
)
