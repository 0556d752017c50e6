"""Beyond the paper: a better estimate of exp(q·k), and whether it makes a better picture."""

import copy
import math
from statistics import fmean
from typing import TYPE_CHECKING

import torch

from enlcn.data.image_io import to_float
from enlcn.models.attention import ENLCA
from enlcn.models.backbone import SRNetwork
from enlcn.reproduce import charts
from enlcn.reproduce.estimation import (
    ESTIMATORS,
    Estimator,
    Replaced,
    features_of,
    kernel_error,
    output_error,
)
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import ESTIMATED, RunSpec, specs
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Spread, Table
from enlcn.reproduce.trained_rows import gains, measure_rows, sets_of, title_of
from enlcn.train.validation import psnrs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AMPLIFICATIONS = range(1, 9)
NUM_FEATURES = 128
MANY_FEATURES = 1024
_DRAWS_OF_A_PICTURE = 4


def needs(preset: Preset) -> list[RunSpec]:
    """The whole method trained with iid and orthogonal rows of F, and with exact attention."""
    return specs(list(ESTIMATED.values()), preset.seeds)


def measure(context: Context) -> Json:
    """Errors of every estimator at every k on the features of a trained network; its PSNR with each of them."""
    name, network = context.main_model()
    photos = [to_float(photo.lr.to(context.device)) for photo in context.material.photos]
    features = [each for lr in photos for each in features_of(network, lr)]
    draws = context.preset.draws
    errors: Json = {}
    for k in AMPLIFICATIONS:
        errors[str(k)] = {
            each.name: {
                **kernel_error(features, k, each, num_features=NUM_FEATURES, draws=draws),
                **output_error(features, k, each, num_features=NUM_FEATURES, draws=max(1, draws // 8)),
            }
            for each in ESTIMATORS
        }
    return {
        "network": name,
        "query_width": network.config.query_width,
        "amplification": network.config.attention.amplification,
        "photos": len(photos),
        "draws": draws,
        "num_features": NUM_FEATURES,
        "errors": errors,
        "trained": measure_rows(context, ESTIMATED),
        "pictures": _pictures(context, network),
    }


def _pictures(context: Context, network: SRNetwork) -> Json:
    """PSNR of the network on a test set with its phi replaced: row -> one value per draw of F."""
    testset, images = next(iter(context.material.scored_sets.items()))
    device = context.device
    draws = min(_DRAWS_OF_A_PICTURE, context.preset.draws)
    rows: Json = {"as trained": [fmean(psnrs(network, images, device))]}
    for count in (NUM_FEATURES, MANY_FEATURES):
        for estimator in ESTIMATORS:
            rows[f"{estimator.name}, m = {count}"] = [
                fmean(psnrs(replace_estimator(network, estimator, count, seed), images, device))
                for seed in range(draws)
            ]
    rows["exact"] = [fmean(psnrs(replace_estimator(network, None, NUM_FEATURES, 0), images, device))]
    rows["no attention"] = [fmean(psnrs(without_attention(network), images, device))]
    return {"testset": testset, "images": len(images), "rows": rows}


def replace_estimator(network: SRNetwork, estimator: Estimator | None, num_features: int, seed: int) -> SRNetwork:
    """A copy of the network whose attentions estimate exp(q·k) otherwise (None: not at all, exactly)."""
    changed = copy.deepcopy(network)
    generator = torch.Generator().manual_seed(seed)
    for stage in changed.stages:
        if isinstance(stage.attention, ENLCA):
            stage.attention = Replaced(stage.attention, estimator, num_features=num_features, generator=generator)
    return changed.eval()


def without_attention(network: SRNetwork) -> SRNetwork:
    """A copy of the network that skips its attentions: what it was never trained for."""
    changed = copy.deepcopy(network)
    for attention in changed.attentions:
        attention.res_scale = 0.0
    return changed.eval()


def show(data: Json) -> Section:
    """Errors by k, PSNR by estimator."""
    names = [estimator.name for estimator in ESTIMATORS]
    rows: list[list[Cell]] = []
    for k, by_name in data["errors"].items():
        cells: list[Cell] = [k, by_name["generalised iid"]["a"]]
        cells += [by_name[name]["log10_formula_relative"] for name in ("iid", "generalised iid")]
        cells += [by_name[name]["log10_measured_relative"] for name in names]
        rows.append([*cells, *(100 * by_name[name]["median_error"] for name in names)])
    kernel = Table(
        f"The estimate of exp(q·k) on features of {data['network']} (D = {data['query_width']}), m = "
        f"{data['num_features']}",
        [
            Column("k"),
            Column("A", ".3f"),
            Column("formula, phi", ".1f"),
            Column("formula, generalised", ".1f"),
            *(Column(f"measured, {name}", ".1f") for name in names),
            *(Column(f"median error, {name}, %", ".0f") for name in names),
        ],
        rows,
        "Formula and measured: log10 of the variance over exp(q·k)², mean over pairs of positions. A is fitted to the "
        f"mean of |q + k|². Photographs: {data['photos']}; draws of F: {data['draws']}.",
    )
    attention = Table(
        "The attention made of it, against exact attention, percent",
        [
            Column("k"),
            *(Column(f"weight misplaced, {name}", ".1f") for name in names),
            *(Column(f"error of Y, {name}", ".1f") for name in names),
        ],
        [
            [
                k,
                *(100 * by_name[name]["weights"] for name in names),
                *(100 * by_name[name]["output"] for name in names),
            ]
            for k, by_name in data["errors"].items()
        ],
    )
    pictures = data["pictures"]
    trained = pictures["rows"]["as trained"][0]
    psnr = Table(
        f"{data['network']} (k = {data['amplification']:g}) with its estimate replaced, "
        f"{title_of(data['trained'], pictures['testset'])}, x4",
        [Column("estimate"), Column("PSNR, dB", ".3f"), Column("against its own F", "+.3f")],
        [
            [label, Spread.of(values), Spread.of([value - trained for value in values])]
            for label, values in pictures["rows"].items()
        ],
        f"{pictures['images']} images; mean ± deviation over fresh draws of F. “As trained” keeps the F the network "
        "was trained with; “no attention” skips the modules of a network that was trained with them.",
    )
    text = [
        "`generalised` are the features phi_A(u) = D exp(A|f|² + B f·u − |u|²/2) / √m of Likhosherstov et al. (Chefs' "
        "Random Tables, 2022): unbiased for every A, with A found numerically for the known norms |q|² = |k|² = k. "
        "`iid` and `orthogonal` are the paper's phi (A = 0)."
    ]
    tables = [psnr, _trained_table(data["trained"]), attention, kernel]
    return Section(text=text, tables=tables, charts={"estimators": lambda: _draw(data)})


def _trained_table(data: Json) -> Table:
    names = sets_of(data)
    about = names[0] if names else ""
    rows: list[list[Cell]] = [
        [label, *(Spread.of(row["psnr"].get(name, [])) for name in names), gains(data, label, "orthogonal", about)]
        for label, row in data["rows"].items()
    ]
    columns = [Column("estimate"), *(Column(title_of(data, name), ".3f") for name in names)]
    return Table(
        "Networks trained with each estimate (k = 6, contrastive loss), PSNR in dB",
        [*columns, Column(f"against orthogonal, {about}", "+.3f")],
        rows,
        "Trained from the start with iid or orthogonal rows of F, or with exact softmax in their place; mean ± "
        "deviation over seeds.",
    )


def _draw(data: Json) -> "Figure":
    figure, (variance, error, picture) = charts.new_figure(3, width=16, height=4.8)
    ks = [int(k) for k in data["errors"]]
    looks = dict(zip((each.name for each in ESTIMATORS), zip(charts.COLOURS, "os^v", strict=False), strict=False))
    for name, (colour, marker) in looks.items():
        values = [data["errors"][str(k)][name] for k in ks]
        if name in ("iid", "generalised iid"):
            title = "phi" if name == "iid" else "generalised"
            variance.plot(ks, [v["log10_formula_relative"] for v in values], color=colour, label=f"formula, {title}")
        variance.plot(
            ks,
            [v["log10_measured_relative"] for v in values],
            color=colour,
            marker=marker,
            linestyle=":",
            label=f"measured, {name}",
        )
        error.plot(ks, [100 * v["output"] for v in values], color=colour, marker=marker, label=name)
    variance.set(
        title="Relative variance of the estimate", xlabel="k, amplification", ylabel="log10 of Var / exp(q·k)²"
    )
    error.set(title="Error of the attention's output Y", xlabel="k, amplification", ylabel="percent of |Y|")
    error.set_ylim(bottom=0)
    for axes in (variance, error):
        axes.set_xticks(ks)
        axes.legend(fontsize=9)
    rows = {label: values for label, values in data["pictures"]["rows"].items() if label != "no attention"}
    trained = rows["as trained"][0]
    for place, (label, values) in enumerate(rows.items()):
        known = next(
            (looks[name][0] for name in sorted(looks, key=len, reverse=True) if label.startswith(name)), "#555555"
        )
        mean = fmean(values) - trained
        spread = max(values) - min(values)
        picture.errorbar([mean], [place], xerr=[spread / 2], marker="o", color=known, capsize=4)
    picture.set_yticks(range(len(rows)), list(rows))
    picture.invert_yaxis()
    picture.axvline(0, color="black", linewidth=0.8)
    picture.set(
        title=f"And the picture ({title_of(data['trained'], data['pictures']['testset'])})",
        xlabel=f"PSNR against the network as trained (dB), k = {data['amplification']:g}",
    )
    if all(math.isclose(v, trained) for values in rows.values() for v in values):
        picture.set_xlim(-0.01, 0.01)
    return figure


ITEM = Item("A better estimate of exp(q·k)", "Beyond the paper", measure, show, needs)
