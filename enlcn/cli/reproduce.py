"""`enlcn reproduce`: the paper's tables and figures, and one report of all."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enlcn.cli import console
from enlcn.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress

    from enlcn.reproduce.run import Left

# Listed here too, so that --help needs no torch; a test holds it to `enlcn.reproduce.items`.
NAMES = (
    "table1",
    "ablation",
    "n1n2",
    "amplification",
    "efficiency",
    "runtime",
    "crisscross",
    "correlation",
    "sparsity",
    "visual",
    "estimators",
    "receptive",
)
ALL = "all"
_SECONDS_BETWEEN_LINES = 10.0


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help=f"{', '.join(NAMES)}; or {ALL}.", show_default=False)
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of results; a reproduction there is gone on with.")
    ] = Path("reproduction"),
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "-d",
            help="A folder with train/ (images or tars) and test sets (in benchmarks/ or beside it), or plain images. "
            "Default: $ENLCN_DATA. runtime, and efficiency's FLOPs, need none.",
        ),
    ] = None,
    testset: Annotated[
        list[Path] | None, typer.Option(help="A further test set, such as Urban100's folder; repeatable.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Of the whole reproduction, over all calls: it sets the steps of every run. Default: 600; smoke: 10.",
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Stop this call then; what is done is kept, the same command goes on."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    preset: Annotated[
        str,
        typer.Option(help="smoke (seconds), cpu, gpu, or paper (its full protocol); auto goes by budget and device."),
    ] = "auto",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A checkpoint to measure besides the bundled one; repeatable. Estimates are measured on the first.",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs per row, to show their spread.")] = None,
    sweep_seeds: Annotated[int | None, typer.Option(help="Runs per value where k or m is swept.")] = None,
    grid_seeds: Annotated[int | None, typer.Option(help="Runs per cell of the n1 n2 grid.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of every run, instead of what the budget holds.")] = None,
    network: Annotated[str | None, typer.Option(help="The miniature's network, such as enlcn-small.")] = None,
    crop: Annotated[int | None, typer.Option(help="Side of the miniature's LR crops.")] = None,
    batch: Annotated[int | None, typer.Option(help="Crops per step of the miniature.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Training processes at a time.")] = 1,
    cache: Annotated[Path | None, typer.Option(help="Where decoded images are kept. Default: ~/.cache/enlcn.")] = None,
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Measure nothing; write the report again from saved results.")
    ] = False,
    docs: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write all as one Markdown file, too, with its pictures.")
    ] = None,
    photographs: Annotated[
        bool,
        typer.Option("--photographs/--no-photographs", help="With --docs: show pictures made of the data, too."),
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Forget the results in --out and begin anew.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with a reproduction found in --out, or refuse to.")
    ] = True,
) -> None:
    """Reproduce the paper: each table and figure, ours beside the paper's, at whatever budget there is.

    Exit code 1: something is left to do, because the time was up or a run failed; the same command goes on.
    """
    chosen = _chosen(names or [])
    from enlcn.reproduce.charts import check_installed
    from enlcn.reproduce.docs import check_docs, write_docs
    from enlcn.reproduce.report import write_all
    from enlcn.reproduce.store import Store

    check_installed()
    if docs is not None:
        check_docs(docs)
    store = Store(out)
    left = None
    if not render_only:
        from enlcn.reproduce.preset import budget_of
        from enlcn.reproduce.run import Request
        from enlcn.reproduce.run import reproduce as run
        from enlcn.reproduce.split import Sources

        if not resume and not overwrite and not store.is_empty:
            raise UserError(f"{out}: holds a reproduction already; choose another folder, or pass --overwrite")
        changes = {
            "seeds": seeds,
            "sweep_seeds": sweep_seeds,
            "grid_seeds": grid_seeds,
            "network": network,
            "crop": crop,
            "batch_size": batch,
        }
        request = Request(
            names=chosen,
            out=out,
            sources=Sources(_data_folder(data), tuple(testset or ()), cache),
            budget=budget_of(preset, budget),
            time_limit=time_limit,
            device=device,
            preset=preset,
            models=tuple(model or ()),
            changes=tuple((name, value) for name, value in changes.items() if value is not None),
            steps=steps,
            jobs=jobs,
            overwrite=overwrite,
        )
        with console.progress_bar() as bar:
            left = run(request, _show_on(bar))
    nothing_yet = left is not None and not any(store.results())
    for path in [] if nothing_yet else write_all(store):
        if path.suffix in (".md", ".html"):
            console.say(f"written: {path}")
    if docs is not None and not nothing_yet:
        write_docs(store, docs, with_photographs=photographs)
        console.say(f"written: {docs}")
    if left is not None:
        _say_what_is_left(left)


def _show_on(bar: "Progress") -> Callable[[str, int, int], None]:
    """What shows how far a reproduction is: a bar, or a line now and then where nobody watches a terminal."""
    task = bar.add_task("starting", total=None)
    last_said, said_at = "", 0.0
    began, before = 0.0, 0  # of what is being done: when, and how much of it was there already

    def show(what: str, done: int, total: int) -> None:
        nonlocal last_said, said_at, began, before
        bar.update(task, description=what, completed=done, total=total)
        if console.out.quiet or console.err.is_terminal:
            return
        now = time.monotonic()
        if what != last_said:
            began, before = now, done
        elif now - said_at <= _SECONDS_BETWEEN_LINES:
            return
        left = _seconds_left(now - began, done - before, total - done)
        console.say(f"{what}: {done:,} of {total:,}{left}", to=console.err)
        last_said, said_at = what, now

    return show


def _seconds_left(seconds: float, done: int, left: int) -> str:
    """An estimate in words, where something was done and something is left."""
    return f", about {seconds / done * left:,.0f} s left" if done > 0 and left > 0 else ""


def _chosen(names: list[str]) -> tuple[str, ...]:
    if not names:
        raise UserError(f"which table or figure? choose from {', '.join(NAMES)}, or {ALL}")
    for name in names:
        if name not in (*NAMES, ALL):
            raise UserError(f"unknown table or figure '{name}'; choose from {', '.join(NAMES)}, or {ALL}")
    return NAMES if ALL in names else tuple(dict.fromkeys(names))


def _data_folder(data: Path | None) -> Path | None:
    """The folder given, or the environment's; None where there is neither, which not everything minds."""
    named = os.environ.get("ENLCN_DATA")
    return data or (Path(named) if named else None)


def _say_what_is_left(left: "Left") -> None:
    if left.runs or left.items:
        items = f", {', '.join(left.items)} to measure" if left.items else ""
        console.say(f"not finished: {left.runs} runs to train{items}; run the same command to go on")
        raise typer.Exit(1)
