"""Pictures of rows of panels: photographs and heat maps over them, the pixel looked from marked, captions beneath."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor
from torch.nn.functional import avg_pool2d

from enlcn.files import atomic_write
from enlcn.reproduce import charts

_PANEL_INCHES = 2.9
_DECADES = 5  # what a logarithmic map shows below its strongest pixel
_MAP = "magma"


@dataclass(frozen=True)
class Panel:
    """One picture: pixels (H, W, 3) in [0, 1], or levels (H, W) in [0, 1] that become heat; lines beneath.

    `range_text` says what the heat's two ends are.
    """

    pixels: np.ndarray
    point: tuple[int, int] | None
    caption: list[str]
    range_text: str = ""

    @property
    def lines(self) -> list[str]:
        """What is written beneath."""
        return [*self.caption, *([self.range_text] if self.range_text else [])]


def photo_panel(lr: Tensor, point: tuple[int, int] | None, caption: list[str]) -> Panel:
    """lr (1, 3, H, W) in [0, 1] as it is."""
    return Panel(lr[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy(), point, caption)


def heat_panel(values: Tensor, point: tuple[int, int], caption: list[str], *, logarithmic: bool = False) -> Panel:
    """values (H, W), not negative; else by their square root, which brings out the many small beside the few large."""
    levels = values.double().cpu().numpy()
    levels = levels / max(levels.max(), 1e-300)
    if not logarithmic:
        return Panel(np.sqrt(levels), point, caption)
    with np.errstate(divide="ignore"):
        decades = np.log10(levels)
    return Panel(np.clip(1 + decades / _DECADES, 0, 1), point, caption, f"black: below 1e-{_DECADES} of the strongest")


def save_panels(rows: list[list[Panel]], path: Path) -> None:
    """Draw all rows into a PNG, replacing it."""
    columns = max(map(len, rows))
    heights = [_PANEL_INCHES * row[0].pixels.shape[0] / row[0].pixels.shape[1] + _text_inches(row) for row in rows]
    figure, _ = charts.new_figure(width=columns * _PANEL_INCHES, height=sum(heights))
    figure.clear()
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes_row, row in zip(grid, rows, strict=True):
        for axes, panel in zip(axes_row, row, strict=False):
            axes.imshow(panel.pixels, cmap=_MAP, vmin=0, vmax=1, interpolation="nearest")
            if panel.point is not None:
                axes.plot(*panel.point, "o", markersize=9, markerfacecolor="none", color="white", markeredgewidth=2.4)
                axes.plot(*panel.point, "o", markersize=9, markerfacecolor="none", color="#e6194b", markeredgewidth=1.4)
            axes.set_xlabel("\n".join(panel.lines), fontsize=8.5, loc="left")
        for axes in axes_row:
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(False)
            for spine in axes.spines.values():
                spine.set_visible(False)
        for axes in axes_row[len(row) :]:
            axes.set_visible(False)
    with atomic_write(path, overwrite=True) as temporary, charts.style():
        figure.savefig(temporary, dpi=130)


def _text_inches(row: list[Panel]) -> float:
    return 0.15 + 0.17 * max(len(panel.lines) for panel in row)


def busiest_point(lr: Tensor, margin: int = 4) -> tuple[int, int]:
    """(x, y) of the pixel with the most detail around it, away from the border. lr (1, 3, H, W)."""
    grey = lr[0].mean(0)
    height, width = grey.shape
    margin = min(margin, (min(height, width) - 1) // 2)
    across, down = grey.diff(dim=1)[:-1].abs(), grey.diff(dim=0)[:, :-1].abs()
    detail = (across * down)[None, None]
    window = 5 if min(height, width) > 12 else 1
    means = avg_pool2d(detail, window, stride=1, padding=window // 2)[0, 0]
    inner = means[margin : height - 1 - margin, margin : width - 1 - margin]
    if inner.numel() == 0:
        return width // 2, height // 2
    y, x = divmod(int(inner.argmax()), inner.shape[1])
    return x + margin, y + margin
