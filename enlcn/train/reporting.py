"""What a run tells: a live line, metrics as JSON lines, TensorBoard. Each is a sink for the same records."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text
from torch import Tensor

from enlcn.errors import MissingExtraError
from enlcn.files import atomic_write, make_folder

_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True)
class TrainRecord:
    """The steps since the last record: means of loss and L_cl; `elapsed` counts seconds of the whole run."""

    step: int
    elapsed: float
    loss: float
    contrastive: float
    learning_rate: float
    images_per_second: float
    skipped: int
    seconds_left: float


@dataclass(frozen=True)
class ValidationRecord:
    """PSNR on Y of the held-out images after `step` steps."""

    step: int
    elapsed: float
    psnr: float


class Sink(Protocol):
    """Something that records go to."""

    def on_train(self, record: TrainRecord) -> None:
        """Every `cadence.log` steps."""

    def on_validation(self, record: ValidationRecord, pictures: dict[str, Tensor]) -> None:
        """Every `cadence.validate` steps; pictures by name, (1, 3, H, W) uint8."""

    def close(self) -> None:
        """The run is over."""


class JsonLines:
    """RUN/metrics.jsonl: one object per record, with its kind under "event".

    Args:
        path: appended to.
        last_step: records beyond it are dropped first: steps that a resumed run does again.
    """

    def __init__(self, path: Path, last_step: int):
        make_folder(path.parent)
        if path.exists():
            kept = [record for record in read_records(path) if record["step"] <= last_step]
            with atomic_write(path, overwrite=True) as temporary:
                temporary.write_text("".join(json.dumps(record) + "\n" for record in kept))
        self._file = path.open("a", buffering=1)

    def on_train(self, record: TrainRecord) -> None:
        """See `Sink`."""
        self._write("train", record)

    def on_validation(self, record: ValidationRecord, pictures: dict[str, Tensor]) -> None:
        """See `Sink`."""
        self._write("validation", record)

    def close(self) -> None:
        """See `Sink`."""
        self._file.close()

    def _write(self, event: str, record: TrainRecord | ValidationRecord) -> None:
        # JSON has no NaN: a mean over no finite step is null.
        values = {name: value if math.isfinite(value) else None for name, value in asdict(record).items()}
        self._file.write(json.dumps({"event": event, **values}) + "\n")


class TensorBoard:
    """Curves and sample pictures for TensorBoard.

    Args:
        folder: added to.
        last_step: what was written of later steps is no longer shown: a resumed run does them again.
    """

    def __init__(self, folder: Path, last_step: int):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise MissingExtraError("TensorBoard", "train") from None
        self._writer: Any = SummaryWriter(str(folder), purge_step=last_step + 1)

    def on_train(self, record: TrainRecord) -> None:
        """See `Sink`."""
        for name in ("loss", "contrastive", "learning_rate", "images_per_second", "skipped"):
            self._writer.add_scalar(f"train/{name}", getattr(record, name), record.step)

    def on_validation(self, record: ValidationRecord, pictures: dict[str, Tensor]) -> None:
        """See `Sink`."""
        self._writer.add_scalar("validation/psnr", record.psnr, record.step)
        for name, picture in pictures.items():
            self._writer.add_image(f"validation/{name}", picture[0], record.step)
        self._writer.flush()

    def close(self) -> None:
        """See `Sink`."""
        self._writer.close()


class LiveLine:
    """One line that is always up to date on a terminal; elsewhere a new line every few seconds."""

    def __init__(self, console: Console, total_steps: int | None):
        self._console = console
        self._total = f"/{total_steps:,}" if total_steps is not None else ""
        self._psnr = ""
        self._last_printed = float("-inf")
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        if self._live:
            self._live.start()

    def on_train(self, record: TrainRecord) -> None:
        """See `Sink`."""
        skipped = f" · {record.skipped} skipped" if record.skipped else ""
        line = (
            f"step {record.step:,}{self._total} · loss {record.loss:.5f} · L_cl {record.contrastive:.4f}{self._psnr}"
            f" · {record.images_per_second:,.0f} img/s · ETA {as_clock(record.seconds_left)}{skipped}"
        )
        if self._live:
            self._live.update(Text(line), refresh=True)
        elif time.monotonic() - self._last_printed > _SECONDS_BETWEEN_LINES:
            self._console.print(line)
            self._last_printed = time.monotonic()

    def on_validation(self, record: ValidationRecord, pictures: dict[str, Tensor]) -> None:
        """See `Sink`."""
        self._psnr = f" · PSNR {record.psnr:.2f}"

    def close(self) -> None:
        """See `Sink`."""
        if self._live:
            self._live.stop()


class Reports:
    """All sinks as one."""

    def __init__(self, sinks: Sequence[Sink]):
        self._sinks = sinks

    def on_train(self, record: TrainRecord) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.on_train(record)

    def on_validation(self, record: ValidationRecord, pictures: dict[str, Tensor]) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.on_validation(record, pictures)

    def close(self) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.close()


def open_reports(
    folder: Path, last_step: int, total_steps: int | None, console: Console | None, tensorboard: bool | None
) -> Reports:
    """The sinks of a run: JSON lines always, a line where there is a console, TensorBoard where installed or asked for.

    Args:
        folder: RUN.
        last_step: see `JsonLines`.
        total_steps: shown in the live line; None where a budget ends the run.
        console: for the live line.
        tensorboard: None takes it where it is installed.
    """
    sinks: list[Sink] = [JsonLines(folder / "metrics.jsonl", last_step)]
    if tensorboard is not False:
        try:
            sinks.append(TensorBoard(folder / "tensorboard", last_step))
        except MissingExtraError:
            if tensorboard:
                raise
    if console is not None and not console.quiet:
        sinks.append(LiveLine(console, total_steps))
    return Reports(sinks)


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a metrics.jsonl; a last line that a crash cut off is left out."""
    for line in path.read_text().splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and "step" in record:
            yield record


def as_clock(seconds: float) -> str:
    """3725 -> "1:02:05"; "?" where it is not known.

    >>> as_clock(3725)
    '1:02:05'
    """
    if not math.isfinite(seconds):
        return "?"
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"
