"""What a reproduction has found, as JSON files in its folder: the plan, every run, every table and figure.

OUT/plan.json, runs/KEY.json, weights/KEY.safetensors, training/KEY/ (unfinished runs), results/NAME.json,
pictures/NAME*.png; what `report` makes of them lies beside: NAME.md, NAME.csv, NAME*.svg, report.html.
"""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from enlcn.errors import UserError
from enlcn.files import atomic_write

Json = dict[str, Any]


class Store:
    """The folder of a reproduction."""

    def __init__(self, path: Path):
        self.path = path
        self.pictures = path / "pictures"

    def plan(self) -> Json | None:
        """The plan that runs here follow; None before the first."""
        return _read(self.path / "plan.json")

    def write_plan(self, plan: Json) -> None:
        """Fix the plan."""
        _write(self.path / "plan.json", plan)

    def run(self, key: str) -> Json | None:
        """A finished run; None where it is not."""
        return _read(self.path / "runs" / f"{key}.json")

    def write_run(self, key: str, values: Json) -> None:
        """A run is finished."""
        _write(self.path / "runs" / f"{key}.json", values)

    def weights(self, key: str) -> Path:
        """Where the network of a run is kept, if it is."""
        return self.path / "weights" / f"{key}.safetensors"

    def training(self, key: str) -> Path:
        """The folder of an unfinished run."""
        return self.path / "training" / key

    def result(self, name: str) -> Json | None:
        """What was measured for a table or figure; None where nothing was."""
        return _read(self.path / "results" / f"{name}.json")

    def write_result(self, name: str, values: Json) -> None:
        """A table or figure is measured."""
        _write(self.path / "results" / f"{name}.json", values)

    def results(self) -> Iterator[tuple[str, Json]]:
        """Every table and figure measured here."""
        for path in sorted((self.path / "results").glob("*.json")):
            values = _read(path)
            if values is not None:
                yield path.stem, values

    @property
    def is_empty(self) -> bool:
        """Whether nothing was planned, trained or measured here; what needs no training has no plan."""
        folders = (self.path / name for name in ("runs", "training", "results"))
        return not (self.path / "plan.json").exists() and not any(any(folder.glob("*")) for folder in folders)

    def clear(self) -> None:
        """Forget all that was found here; other files stay."""
        for name in ("runs", "weights", "training", "results", "pictures"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        (self.path / "plan.json").unlink(missing_ok=True)


def _read(path: Path) -> Json | None:
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path}: not readable JSON ({error}); delete it to measure again") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: holds no results of `enlcn reproduce`; delete it to measure again")
    return values


def _write(path: Path, values: Json) -> None:
    with atomic_write(path, overwrite=True) as temporary:
        text = json.dumps(_finite(values), indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
