"""Curves of several runs in one picture, from their metrics.jsonl."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from enlcn.errors import MissingExtraError, UserError
from enlcn.files import atomic_write, check_writable
from enlcn.train.reporting import read_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger(__name__)
Axis = Literal["step", "elapsed"]
# event, field, title, whether small values matter
_PSNR = ("validation", "psnr", "PSNR on Y, held-out images (dB)", False)
_PANELS = (
    _PSNR,
    ("train", "loss", "loss", True),
    ("train", "contrastive", "L_cl", False),
    ("train", "learning_rate", "learning rate", False),
)
_AXIS_TITLES = {"step": "steps", "elapsed": "seconds"}
_NUM_COLOURS = 10  # matplotlib's cycle; runs beyond it take the next kind of line
_LINES = ("-", "--", ":", "-.")
Records = list[dict[str, Any]]


def plot_runs(runs: Sequence[Path], out: Path, *, over: Axis = "step", overwrite: bool = False) -> None:
    """Draw the curves of `runs` (folders of `enlcn train`) into `out`, over steps or elapsed seconds."""
    check_writable(out, overwrite=overwrite)
    curves = {_label(run, runs): _records(run) for run in runs}
    begun = {label: records for label, records in curves.items() if records}
    if not begun:
        raise UserError(f"{', '.join(map(str, runs))}: no metrics yet, nothing to draw")
    for label in curves.keys() - begun.keys():
        log.warning("%s: has no metrics yet and is left out", label)
    figure = draw_curves(begun, over)
    with atomic_write(out, overwrite=overwrite) as temporary:
        try:
            figure.savefig(temporary, dpi=130)
        except ValueError as error:
            raise UserError(f"{out}: {error}") from None


def draw_curves(curves: Mapping[str, Records], over: Axis = "step") -> "Figure":
    """The panels; a run, named by its key in `curves`, looks alike in all of them and in the legend.

    PSNR has none where no run was validated.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
    except ImportError:
        raise MissingExtraError("Drawing curves", "train") from None

    validated = any(_points(records, "validation", "psnr", over) for records in curves.values())
    panels = [panel for panel in _PANELS if validated or panel is not _PSNR]
    figure = Figure(figsize=(11, 7.5) if validated else (11, 4), layout="constrained")
    grid = figure.subplots(2, 2) if validated else figure.subplots(1, 3)
    looks: dict[str, dict[str, Any]] = {
        label: {
            "color": f"C{index % _NUM_COLOURS}",
            "linestyle": _LINES[index // _NUM_COLOURS % len(_LINES)],
            "linewidth": 1.2,
        }
        for index, label in enumerate(curves)
    }
    for axes, (event, field, title, logarithmic) in zip(grid.flat, panels, strict=True):
        for label, records in curves.items():
            if points := _points(records, event, field, over):
                axes.plot(*zip(*points, strict=True), marker="." if len(points) < 3 else "", **looks[label])
        axes.set(title=title, xlabel=_AXIS_TITLES[over], yscale="log" if logarithmic else "linear")
        axes.grid(alpha=0.3)
    handles = [Line2D([], [], **look) for look in looks.values()]
    figure.legend(handles, list(looks), loc="outside lower center", ncols=min(4, len(curves)))
    return figure


def _points(records: Records, event: str, field: str, over: Axis) -> list[tuple[float, float]]:
    return [(r[over], r[field]) for r in records if r.get("event") == event and r[field] is not None]


def _label(run: Path, runs: Sequence[Path]) -> str:
    """The folder's name, or its path where another run has the same name."""
    return run.name if sum(other.name == run.name for other in runs) == 1 else str(run)


def _records(run: Path) -> Records:
    path = run / "metrics.jsonl"
    if not path.is_file():
        raise UserError(f"{run}: no run of `enlcn train` (it has no metrics.jsonl)")
    return list(read_records(path))
