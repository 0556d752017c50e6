"""How charts look: one size, one set of colours that colour-blind readers can tell apart, the paper always grey."""

import importlib.util
from typing import TYPE_CHECKING, Any

from enlcn.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette.
BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"
COLOURS = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY)
PAPER = "#555555"
_STYLE: Any = {
    "font.size": 10.5,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "enlcn",
}


def check_installed() -> None:
    """An error that names the extra where charts cannot be drawn; to be called before the work."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingExtraError("Drawing charts", "train")


def new_figure(panels: int = 1, *, width: float | None = None, height: float = 4.2) -> "tuple[Figure, list[Axes]]":
    """A figure with panels side by side, in our style."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(width or 1.2 + 5.2 * panels, height), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False)[0]
    return figure, list(axes)


def style() -> Any:
    """The scope in which a figure is to be written to a file."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def ours(**changes: Any) -> dict[str, Any]:
    """How our measurements are drawn."""
    return {"color": BLUE, "marker": "o", "linewidth": 1.8, "markersize": 6, "capsize": 4, "label": "ours", **changes}


def papers(**changes: Any) -> dict[str, Any]:
    """How the paper's figures are drawn."""
    return {
        "color": PAPER,
        "marker": "D",
        "linestyle": "--",
        "linewidth": 1.4,
        "markersize": 5.5,
        "markerfacecolor": "white",
        "zorder": 4,
        "label": "the paper",
        **changes,
    }
