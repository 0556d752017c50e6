"""What is known of a shipped model, and the JSON that says it.

`enlcn/weights/models.json` lists all of them; a large one, stored in parts, has its row once more beside the parts, as
NAME/manifest.json, so that the folder can be put anywhere.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from enlcn import file_parts
from enlcn.config import SCALES
from enlcn.errors import UserError
from enlcn.file_parts import SplitFile
from enlcn.files import atomic_write

FORMAT_VERSION = 1
Scores = dict[str, tuple[float, float]]
_TEXTS = ("description", "network", "recipe", "hardware", "licence", "scores_command", "scores_from")
_KINDS: dict[str, Any] = {
    **{"parameters": int, "steps": int | None, "seed": int | None, "cpu_seconds": float | int | None},
    **dict.fromkeys(_TEXTS, str),
}


@dataclass(frozen=True)
class ShippedModel:
    """One row.

    Attributes:
        name: what users call it, FAMILY-xS.
        scale: s.
        parameters: how many weights it has.
        file: the safetensors file, its parts where it is stored so, and their SHA-256.
        description: one line.
        network: what it is built of, in words; the file itself holds the config.
        recipe: the training that made it.
        steps: of training, over all its stages.
        seed: of the training.
        hardware: what it was trained on, and how long.
        licence: of the weights.
        scores: (PSNR, SSIM) on Y by test set.
        bicubic: the same of plain bicubic, from the same evaluation.
        scores_command: makes the scores.
        scores_from: where the command ran, and with what.
        cpu_seconds: 128x128 upscaled on two threads, warm, fp32; None where not measured.
    """

    name: str
    scale: int
    parameters: int
    file: SplitFile
    description: str = ""
    network: str = ""
    recipe: str = ""
    steps: int | None = None
    seed: int | None = None
    hardware: str = ""
    licence: str = ""
    scores: Scores = field(default_factory=dict)
    bicubic: Scores = field(default_factory=dict)
    scores_command: str = ""
    scores_from: str = ""
    cpu_seconds: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.scale not in SCALES:
            raise ValueError(f"{self.name}: scale {self.scale}; choose from {', '.join(map(str, SCALES))}")
        if not self.file.whole.name.endswith(".safetensors"):
            raise ValueError(f"{self.name}: {self.file.whole.name} is no .safetensors file, and no other is shipped")
        for field_name, kind in _KINDS.items():  # manifests come from anywhere
            if not isinstance(value := getattr(self, field_name), kind):
                raise ValueError(f"{self.name}: {field_name} cannot be {value!r}")

    @property
    def sha256(self) -> str:
        """Of the whole file."""
        return self.file.whole.sha256

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.file.whole.size


def check_name(name: str) -> None:
    """A ValueError where a model cannot be called so; it becomes the name of files and folders."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise ValueError(f"'{name}' is no name for a model: a-z, 0-9, . _ and - only")


def to_plain(model: ShippedModel) -> dict[str, Any]:
    """Plain data for JSON."""
    values: dict[str, Any] = {each.name: getattr(model, each.name) for each in fields(model)}
    for name in ("scores", "bicubic"):
        values[name] = {testset: {"psnr": psnr, "ssim": ssim} for testset, (psnr, ssim) in values[name].items()}
    return values | {"file": file_parts.to_plain(model.file)}


def from_plain(values: dict[str, Any]) -> ShippedModel:
    """The inverse of `to_plain`; fields of later versions are ignored, a bad row raises Key-, Type- or ValueError."""
    known = {each.name for each in fields(ShippedModel)}
    values = {name: value for name, value in values.items() if name in known}
    for name in ("scores", "bicubic"):
        values[name] = {
            testset: (float(each["psnr"]), float(each["ssim"])) for testset, each in values.get(name, {}).items()
        }
    return ShippedModel(**values | {"file": file_parts.from_plain(values["file"])})


def parse(text: str | bytes, source: str) -> list[ShippedModel]:
    """The rows of models.json, or the one of a manifest.json; `source` names it in errors."""
    try:
        values = json.loads(text)
        version = values["format_version"]
        if version == FORMAT_VERSION:
            return [from_plain(row) for row in values.get("models", [values])]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"no '{error.args[0]}'" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{source}: not a manifest of models ({reason})") from None
    raise UserError(f"{source}: a manifest of version {version}; this program reads {FORMAT_VERSION}: update it")


def parse_one(text: str | bytes, source: str) -> ShippedModel:
    """The row of a manifest.json."""
    models = parse(text, source)
    if len(models) != 1:
        raise UserError(f"{source}: lists {len(models)} models; give the manifest.json of one")
    return models[0]


def read(path: Path) -> list[ShippedModel]:
    """The rows in a file."""
    return parse(_bytes(path), str(path))


def read_one(path: Path) -> ShippedModel:
    """The row in a manifest.json."""
    return parse_one(_bytes(path), str(path))


def write_list(path: Path, models: Iterable[ShippedModel]) -> None:
    """Write models.json, sorted by name."""
    rows = [to_plain(model) for model in sorted(models, key=lambda model: model.name)]
    _write(path, {"format_version": FORMAT_VERSION, "models": rows})


def write_one(path: Path, model: ShippedModel) -> None:
    """Write the manifest.json of one model."""
    _write(path, {"format_version": FORMAT_VERSION, **to_plain(model)})


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def _write(path: Path, values: dict[str, Any]) -> None:
    with atomic_write(path, overwrite=True) as temporary:
        temporary.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
