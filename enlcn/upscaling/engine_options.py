"""How a network is to run: device, precision, memory. Checked without torch, before it is imported."""

import re
from dataclasses import dataclass
from pathlib import Path

from enlcn.errors import UserError

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
MODES = ("auto", "whole", "streaming")
ENGINES = ("auto", "torch", "onnxruntime")
SMALLEST_LIMIT = 512 * 2**20  # the libraries alone take half of it
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class EngineOptions:
    """How to run.

    Attributes:
        device: "auto" (CUDA, then Apple's, then CPU) or a torch device.
        precision: "auto" (bf16 on CUDA, fp32 elsewhere), "fp32", "bf16" or "fp16".
        mode: "whole", "streaming" or "auto": whole where it fits the memory limit.
        self_ensemble: average over the eight orientations of the image; eight times the work.
        memory_limit: bytes to stay under, as a number or as text ("2G"); None takes a share of what is free.
        tile: side of streamed tiles in LR pixels; None takes what fits the limit.
        scratch: folder for what does not fit; None takes the system's.
        engine: "torch", "onnxruntime" or "auto": onnxruntime for ONNX files, torch for all else.
    """

    device: str = "auto"
    precision: str = "auto"
    mode: str = "auto"
    self_ensemble: bool = False
    memory_limit: int | str | None = None
    tile: int | None = None
    scratch: Path | None = None
    engine: str = "auto"

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("precision", self.precision, PRECISIONS),
            ("mode", self.mode, MODES),
            ("engine", self.engine, ENGINES),
        ):
            if value not in choices:
                raise UserError(f"{name} is '{value}'; choose from {', '.join(choices)}")
        if self.tile is not None and self.tile < 1:
            raise UserError(f"tile is {self.tile}; it must be at least 1")
        if self.limit is not None and self.limit < SMALLEST_LIMIT:
            raise UserError(f"the memory limit must be at least {SMALLEST_LIMIT >> 20} MiB")

    @property
    def limit(self) -> int | None:
        """The memory limit in bytes."""
        given = self.memory_limit
        return parse_bytes(given) if isinstance(given, str) else given


def parse_bytes(text: str) -> int:
    """A number of bytes as people write it.

    >>> parse_bytes("1.5G"), parse_bytes("800 MiB")
    (1610612736, 838860800)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not match:
        raise UserError(f"'{text}' is no amount of memory; give it as 800M or 2G")
    return int(float(match[1]) * _UNITS[match[2]])
