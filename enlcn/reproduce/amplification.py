"""Figure 6: the amplification k against PSNR, and against the variance and error of the approximation."""

from typing import TYPE_CHECKING

from enlcn.data.image_io import to_float
from enlcn.reproduce import charts, paper
from enlcn.reproduce.estimation import ESTIMATORS, features_of, kernel_error, output_error
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import AMPLIFICATION, RunSpec, specs
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Spread, Table
from enlcn.reproduce.trained_rows import gains, main_set, measure_rows, psnr_table, title_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAPER: dict[str, float | None] = {str(k): psnr for k, psnr in paper.AMPLIFICATION.items()}
NUM_FEATURES = 128


def needs(preset: Preset) -> list[RunSpec]:
    """k = 1 to 8."""
    return specs(list(AMPLIFICATION.values()), preset.sweep_seeds)


def measure(context: Context) -> Json:
    """PSNR of runs at every k; variance and error of the estimate on the features of one trained network."""
    name, network = context.main_model()
    photos = [to_float(photo.lr.to(context.device)) for photo in context.material.photos]
    features = [each for lr in photos for each in features_of(network, lr)]
    iid, orthogonal = ESTIMATORS[:2]
    draws = context.preset.draws
    estimates = {}
    for k in AMPLIFICATION:
        by_kind = {
            each.name: kernel_error(features, k, each, num_features=NUM_FEATURES, draws=draws)
            for each in (iid, orthogonal)
        }
        error = output_error(features, k, orthogonal, num_features=NUM_FEATURES, draws=max(1, draws // 8))
        estimates[str(k)] = {"kernel": by_kind, "attention": error}
    return {
        **measure_rows(context, AMPLIFICATION),
        "network": name,
        "photos": len(photos),
        "draws": draws,
        "num_features": NUM_FEATURES,
        "estimates": estimates,
    }


def show(data: Json) -> Section:
    """The figure with two axes, and its numbers."""
    psnr = psnr_table(data, "Networks trained at each k", paper=_PAPER, paper_set="Set5", reference="1", first="k")
    rows: list[list[Cell]] = []
    for k, each in data["estimates"].items():
        iid, orthogonal = each["kernel"]["iid"], each["kernel"]["orthogonal"]
        own = [run["output"] for run in data["rows"].get(k, {}).get("estimate", [])]
        rows.append(
            [
                k,
                iid["log10_formula"],
                iid["log10_measured"],
                orthogonal["log10_measured"],
                100 * orthogonal["median_error"],
                100 * each["attention"]["weights"],
                100 * each["attention"]["output"],
                Spread.of([100 * value for value in own]),
            ]
        )
    table = Table(
        f"The estimate of exp(q·k) on features of {data['network']}, m = {data['num_features']}",
        [
            Column("k"),
            Column("log10 variance, Proof 2", ".1f"),
            Column("measured, iid", ".1f"),
            Column("measured, orthogonal", ".1f"),
            Column("median error of exp(q·k), %", ".0f"),
            Column("weight misplaced, %", ".0f"),
            Column("error of Y, %", ".0f"),
            Column("error of Y, network trained at k, %", ".0f"),
        ],
        rows,
        f"Photographs: {data['photos']}; {data['draws']} draws of F. Queries and keys of the trained network are given "
        "the squared length k. Where measured variances lie below Proof 2's, the estimate is heavy-tailed: "
        "no sample of this size holds the rare draws that make the variance.",
    )
    text = [
        "The paper draws PSNR and variance over k without giving numbers; its text says k = 6 is best, and its Table 2 "
        "gives the points k = 1 and k = 6."
    ]
    return Section(text=text, tables=[psnr, table], charts={"amplification": lambda: _draw(data)})


def _draw(data: Json) -> "Figure":
    figure, (left, right) = charts.new_figure(2, width=12.5, height=4.8)
    about = main_set(data, "Set5")
    ks = [int(k) for k in data["estimates"]]
    measured = [(k, spread) for k in ks if about and (spread := gains(data, str(k), "1", about)) is not None]
    if measured:
        left.errorbar(
            [k for k, _ in measured],
            [spread.mean for _, spread in measured],
            [spread.deviation or 0 for _, spread in measured],
            **charts.ours(label=f"PSNR, ours, {title_of(data, about)}"),
        )
    base = paper.AMPLIFICATION[1]
    left.plot(
        list(paper.AMPLIFICATION),
        [psnr - base for psnr in paper.AMPLIFICATION.values()],
        **charts.papers(label="PSNR, the paper (its two points in numbers)", linestyle="none"),
    )
    left.set(title="PSNR and variance against k", xlabel="k, amplification", ylabel="gain over k = 1 (dB)")
    left.set_xticks(ks)
    other = left.twinx()
    other.grid(False)
    other.spines["right"].set_visible(True)
    kernel = [data["estimates"][str(k)]["kernel"] for k in ks]
    other.plot(
        ks,
        [each["iid"]["log10_formula"] for each in kernel],
        color=charts.VERMILION,
        marker="s",
        label="variance, Proof 2",
    )
    other.plot(
        ks,
        [each["iid"]["log10_measured"] for each in kernel],
        color=charts.ORANGE,
        marker="^",
        linestyle="--",
        label="variance, measured (iid)",
    )
    other.set_ylabel("log10 of the estimate's variance")
    handles = [*left.get_legend_handles_labels()[0], *other.get_legend_handles_labels()[0]]
    labels = [*left.get_legend_handles_labels()[1], *other.get_legend_handles_labels()[1]]
    left.legend(handles, labels, loc="lower center", bbox_to_anchor=(0.5, -0.42), ncols=2)
    attention = [data["estimates"][str(k)]["attention"] for k in ks]
    right.plot(
        ks,
        [100 * each["weights"] for each in attention],
        color=charts.PURPLE,
        marker="v",
        label="attention weight misplaced",
    )
    right.plot(ks, [100 * each["output"] for each in attention], color=charts.GREEN, marker="o", label="error of Y")
    own = [(k, run["output"]) for k in ks for run in data["rows"].get(str(k), {}).get("estimate", [])]
    if own:
        right.plot(
            [k for k, _ in own],
            [100 * error for _, error in own],
            "x",
            color=charts.BLUE,
            label="error of Y, networks trained at k",
        )
    right.set(title="The attention made of it, against exact attention", xlabel="k, amplification", ylabel="percent")
    right.set_xticks(ks)
    right.set_ylim(bottom=0)
    right.legend(loc="lower center", bbox_to_anchor=(0.5, -0.42), ncols=2)
    return figure


ITEM = Item("The amplification factor k", "Figure 6", measure, show, needs)
