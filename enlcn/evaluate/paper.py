"""The paper's Table 1 as data, to be printed beside what was measured."""

import json
from functools import cache
from importlib.resources import files


@cache
def _table() -> dict:
    return json.loads((files("enlcn") / "assets" / "paper_table1.json").read_text(encoding="utf-8"))


def source() -> str:
    """Where the figures come from."""
    return _table()["source"]


def methods(scale: int) -> dict[str, dict[str, tuple[float, float] | None]]:
    """For each method, in the paper's order, (PSNR, SSIM) on Y by test set; None where the paper gives none.

    There are none at scales other than 2 and 4.
    """
    return {
        row["method"]: {
            name: tuple(figures) if figures else None
            for name, figures in row.items()
            if name not in ("method", "scale")
        }
        for row in _table()["rows"]
        if row["scale"] == scale
    }
