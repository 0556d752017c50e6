"""`enlcn plot`: the curves of several runs in one picture."""

from pathlib import Path
from typing import Annotated

import typer

from enlcn.cli import console


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders that `enlcn train` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the picture (.png, .svg, .pdf).")],
    by_time: Annotated[bool, typer.Option("--by-time", help="Over seconds instead of steps.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing picture.")] = False,
) -> None:
    """Draw loss, L_cl, learning rate and, where there is any, validation PSNR of one or more runs."""
    from enlcn.train.plot import plot_runs

    plot_runs(runs, out, over="elapsed" if by_time else "step", overwrite=overwrite)
    console.say(f"drawn: {out}")
