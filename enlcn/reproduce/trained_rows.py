"""Tables of trained rows: PSNR of every seed, the gain over a reference, and the paper's figures beside them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from enlcn.reproduce import charts
from enlcn.reproduce.label import set_titles
from enlcn.reproduce.material import BUILDINGS, HELD_OUT, SEEN
from enlcn.reproduce.section import Context
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Spread, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measure_rows(context: Context, recipes: Mapping[Any, str]) -> Json:
    """What the finished runs behind each row found: row -> sets -> PSNR by seed, time per step, own estimate."""
    plan = context.store.plan() or {}
    planned_jobs: int = plan.get("jobs", 1)
    rows = {}
    for label, recipe in recipes.items():
        runs = context.runs(recipe)
        names = list(runs[0]["psnr"]) if runs else []
        rows[str(label)] = {
            "recipe": recipe,
            "seeds": [run["seed"] for run in runs],
            "psnr": {name: [run["psnr"][name] for run in runs] for name in names},
            "milliseconds_per_step": [run["milliseconds_per_step"] for run in runs],
            "jobs": max(run.get("jobs", planned_jobs) for run in runs) if runs else None,
            "seconds": sum(run["seconds"] for run in runs),
            "steps": runs[0]["steps"] if runs else None,
            "skipped_steps": sum(run["skipped_steps"] for run in runs),
            "parameters": runs[0]["parameters"] if runs else None,
            "estimate": [run["estimate"] for run in runs if "estimate" in run],
        }
    return {"rows": rows, "titles": set_titles(plan.get("data", {}))}


def sets_of(data: Json) -> list[str]:
    """The sets that rows were scored on, in order."""
    return list(dict.fromkeys(name for row in data["rows"].values() for name in row["psnr"]))


def title_of(data: Json, name: str | None) -> str:
    """A set's name, and what part of it was scored where it was not scored whole."""
    return str(data.get("titles", {}).get(name, name))


def main_set(data: Json, wanted: str) -> str | None:
    """The set a table is about: the paper's where it is at hand, else buildings for Urban100, else the first."""
    names = sets_of(data)
    if wanted == "Urban100" and wanted not in names and BUILDINGS in names:
        return BUILDINGS
    return wanted if wanted in names else names[0] if names else None


def gains(data: Json, label: str, reference: str, testset: str) -> Spread | None:
    """Row minus reference, seed by seed."""
    row, base = data["rows"][label], data["rows"][reference]
    by_seed = dict(zip(base["seeds"], base["psnr"].get(testset, []), strict=False))
    own = zip(row["seeds"], row["psnr"].get(testset, []), strict=False)
    return Spread.of([value - by_seed[seed] for seed, value in own if seed in by_seed])


def psnr_table(
    data: Json, title: str, *, paper: Mapping[str, float | None], paper_set: str, reference: str, first: str = "row"
) -> Table:
    """Rows with the paper's PSNR and gain, and ours on every set with the gain on the set the table is about."""
    names = sets_of(data)
    about = main_set(data, paper_set)
    columns = [
        Column(first),
        Column(f"paper, {paper_set}"),
        Column("paper, gain", "+.2f"),
        *(Column(f"ours, {title_of(data, name)}", ".3f") for name in names),
        Column(f"ours, gain on {about}", "+.3f"),
        Column("ms/step", ".1f"),
    ]
    rows: list[list[Cell]] = []
    for label, row in data["rows"].items():
        theirs, base = paper.get(label), paper.get(reference)
        rows.append(
            [
                label,
                theirs,
                theirs - base if theirs is not None and base is not None else None,
                *(Spread.of(row["psnr"].get(name, [])) for name in names),
                gains(data, label, reference, about) if about else None,
                Spread.of(row["milliseconds_per_step"]),
            ]
        )
    counts = sorted({len(row["seeds"]) for row in data["rows"].values()})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    absent = "" if paper_set in names else f" {paper_set}, on which the paper measured, is not at hand."
    note = (
        f"PSNR on Y in dB, mean ± standard deviation over seeds ({seeds} per row); gains are taken seed by seed over "
        f"“{reference}”.{absent}"
    )
    note += f" Training these rows took {sum(row['seconds'] for row in data['rows'].values()):,.0f} s in all."
    note += f" ms/step: each row's own runs, start included{_sharing(data)}."
    if SEEN in names:
        note += " Training pictures: no others were at hand, so that scores are of what was trained on."
    if HELD_OUT in names:
        note += " Held-out: photographs kept out of training"
        note += "; buildings: those of them with repeated structure." if BUILDINGS in names else "."
    return Table(title, columns, rows, note)


def _sharing(data: Json) -> str:
    """Whether other runs slowed the timed ones."""
    jobs = [row.get("jobs") for row in data["rows"].values() if row["seeds"]]
    if None in jobs:
        return "; others may have shared the device"
    most = max(jobs, default=1)
    return f"; up to {most} runs shared the device, which slows each" if most > 1 else ""


def gain_bars(data: Json, title: str, *, paper: Mapping[str, float | None], paper_set: str, reference: str) -> "Figure":
    """Gains over the reference as bars with the spread over seeds; the paper's as diamonds."""
    about = main_set(data, paper_set)
    labels = [label for label in data["rows"] if label != reference]
    figure, (axes,) = charts.new_figure(width=max(6.5, 1.3 * len(labels)))
    for index, label in enumerate(labels):
        spread = gains(data, label, reference, about) if about else None
        if spread is not None:
            axes.bar(
                index,
                spread.mean,
                0.55,
                yerr=spread.deviation,
                color=charts.SKY,
                edgecolor=charts.BLUE,
                capsize=5,
                label=_ours(data, about, spread.count) if index == 0 else None,
            )
        theirs, base = paper.get(label), paper.get(reference)
        if theirs is not None and base is not None:
            look = charts.papers(linestyle="none", label=f"the paper, {paper_set}" if index == 0 else None)
            axes.plot([index], [theirs - base], **look)
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(labels)), [label.replace(" + ", "\n+ ") for label in labels])
    axes.set(title=title, ylabel=f"gain over “{reference}” (dB)")
    axes.margins(y=0.2)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def _ours(data: Json, testset: str | None, seeds: int) -> str:
    whisker = f" (whisker: deviation over {seeds} seeds)" if seeds > 1 else ""
    return f"ours, {title_of(data, testset)}{whisker}"
