"""A network ready to run: its device and precision, whole image or stream, and what to do when that fails.

Axes: H rows, W columns of the LR image, s scale.
"""

import logging
import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.models.fast import FastNetwork
from enlcn.upscaling import memory
from enlcn.upscaling.devices import DTYPES, autocast, resolve_device, resolve_precision
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.ensemble import orientations, turned_reader, turned_writer
from enlcn.upscaling.planes import Scratch
from enlcn.upscaling.streaming import (
    EmitSR,
    Progress,
    ReadLR,
    StreamPlan,
    features_channels,
    stream,
    why_not_streamable,
)
from enlcn.upscaling.tiling import Tile, tiles
from enlcn.upscaling.whole import upscale_whole

log = logging.getLogger(__name__)

_AVERAGING_TILE = 256


@dataclass(frozen=True)
class RunReport:
    """What a run did.

    Attributes:
        mode: "whole" or "streaming".
        precision: what it ended in.
        seconds: wall time.
        tile: tile side where it streamed.
        disk: bytes of scratch files.
        notes: what did not go as first planned.
    """

    mode: str
    precision: str
    seconds: float = 0.0
    tile: int | None = None
    disk: int = 0
    notes: tuple[str, ...] = ()


class _NonFiniteError(Exception):
    pass


class Engine:
    """Upscales images that are read and written by tiles."""

    def __init__(self, network: SRNetwork, options: EngineOptions | None = None):
        self.options = options or EngineOptions()
        self.device = resolve_device(self.options.device)
        self.precision = resolve_precision(self.options.precision, self.device)
        # Dense convolutions run faster and in less memory with channels last, on CPUs and GPUs alike.
        self.network = network.to(self.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        self._fast: FastNetwork | None = None
        self.limit = self.options.limit or memory.default_limit(self.device)
        self.host_limit = self.options.limit or memory.default_limit(torch.device("cpu"))

    @property
    def scale(self) -> int:
        """s."""
        return self.network.config.scale

    def why_not_streamable(self) -> str | None:
        """The reason why this engine cannot stream exactly, or None if it can."""
        return why_not_streamable(self.network)

    def upscale(
        self, height: int, width: int, read_lr: ReadLR, emit_sr: EmitSR, progress: Progress | None = None
    ) -> RunReport:
        """Upscale one image.

        Args:
            height, width: LR size.
            read_lr: gives a tile's pixels (1, 3, h, w) in [0, 1], in float32 on the CPU.
            emit_sr: takes a tile's result (1, 3, s h, s w) in float32 on the CPU; all again after a fallback.
            progress: called with (steps done, steps in all), first with (0, steps in all).
        """
        start = time.perf_counter()
        report = RunReport(self._mode(height, width), self.precision, tile=self._tile(self.limit))
        while True:
            try:
                report = self._attempt(report, (height, width), read_lr, emit_sr, progress)
                tile = report.tile if report.mode == "streaming" else None
                report = replace(report, seconds=time.perf_counter() - start, tile=tile)
                log.debug("%dx%d computed: %s", width, height, _described(report, self.device))
                return report
            except _NonFiniteError:
                report = _noted(report, f"{report.precision} gave values that are not finite; done again in fp32")
                report = replace(report, precision="fp32")
            except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
                if report.mode == "streaming" or not memory.is_out_of_memory(error) or self.why_not_streamable():
                    raise
                report = _noted(report, "out of memory; done again by streaming")
                report = replace(report, mode="streaming", tile=self._tile(self.limit // 2))

    def _mode(self, height: int, width: int) -> str:
        wanted = self.options.mode
        reason = self.why_not_streamable()
        if wanted == "streaming" and reason is not None:
            raise UserError(f"cannot stream this network: {reason}")
        fits = memory.whole_image_bytes(self.network.config, height, width) <= self.limit
        if wanted == "whole" and not fits:
            log.warning("the whole image may take more than the memory limit; --mode streaming would not")
        if wanted != "auto":
            return wanted
        if not fits and reason is not None:
            log.warning("the image may not fit the memory limit, but %s", reason)
        return "whole" if fits or reason is not None else "streaming"

    def _attempt(
        self, report: RunReport, size: tuple[int, int], read_lr: ReadLR, emit_sr: EmitSR, progress: Progress | None
    ) -> RunReport:
        run = self._run_ensemble if self.options.self_ensemble else self._run
        with autocast(report.precision, self.device):
            disk = run(report, size, read_lr, emit_sr, progress)
        return replace(report, disk=disk)

    def whole_network(self, precision: str) -> SRNetwork | FastNetwork:
        """What computes whole images: on a GPU in 16 bits, the network laid out for it."""
        if self.device.type != "cuda" or precision == "fp32":
            return self.network
        if self._fast is None or self._fast.dtype != DTYPES[precision]:
            # No graphs: pictures seldom share a size, and recording one costs more than it saves.
            self._fast = FastNetwork(self.network, DTYPES[precision], graphs=False)
        return self._fast

    def _tile(self, limit: int) -> int:
        return self.options.tile or memory.fitting_tile(self.network.config, limit)

    def _run(
        self, report: RunReport, size: tuple[int, int], read_lr: ReadLR, emit_sr: EmitSR, progress: Progress | None
    ) -> int:
        """One pass of the network over the image; returns the bytes of scratch files it used."""
        height, width = size

        def read_on_device(tile: Tile) -> Tensor:
            return read_lr(tile).to(self.device, memory_format=torch.channels_last)

        def emit_checked(tile: Tile, sr: Tensor) -> None:
            sr = sr.float()
            if report.precision != "fp32" and not sr.isfinite().all():
                raise _NonFiniteError
            emit_sr(tile, sr.cpu())

        if report.mode == "whole":
            whole = Tile(0, height, 0, width, height, width)
            upscale_whole(self.whole_network(report.precision), read_on_device(whole), emit_checked, progress=progress)
            return 0
        channels = features_channels(self.network)
        dtype = np.dtype(np.float32 if report.precision == "fp32" else np.float16)
        with self._scratch() as scratch:
            features = scratch.plane(height, width, channels, dtype) if channels else None
            assert report.tile is not None
            plan = StreamPlan(height, width, report.tile)
            if progress is not None:
                progress(0, plan.num_steps(self.network))
            stream(self.network, read_on_device, emit_checked, plan, features, progress=progress)
            return scratch.disk_used

    def _run_ensemble(
        self, report: RunReport, size: tuple[int, int], read_lr: ReadLR, emit_sr: EmitSR, progress: Progress | None
    ) -> int:
        height, width = size
        scale = self.scale
        disk = 0
        with self._scratch() as scratch:
            total = scratch.plane(height * scale, width * scale, 3, np.dtype(np.float32))

            def add(tile: Tile, sr: Tensor) -> None:
                top, left = tile.top * scale, tile.left * scale
                result = sr[0].permute(1, 2, 0).numpy() / 8
                if index:
                    result = result + total.read(top, tile.bottom * scale, left, tile.right * scale)
                total.write(top, left, result)

            for index, orientation in enumerate(orientations()):
                turned_size = (width, height) if orientation.transpose else size
                reader, writer = turned_reader(read_lr, orientation), turned_writer(add, orientation)
                disk = max(disk, self._run(report, turned_size, reader, writer, _eighth(progress, index)))
            for part in tiles(height, width, _AVERAGING_TILE):
                box = (part.top * scale, part.bottom * scale, part.left * scale, part.right * scale)
                emit_sr(part, torch.from_numpy(total.read(*box)).permute(2, 0, 1).unsqueeze(0))
            return disk + scratch.disk_used

    def _scratch(self) -> Scratch:
        return Scratch(self.host_limit // 4, self.options.scratch)


def _described(report: RunReport, device: torch.device) -> str:
    tiles = f" by tiles of {report.tile}" if report.tile else ""
    return f"{report.mode}{tiles}, in {report.precision}, on {device}, in {report.seconds:.2f} s"


def _noted(report: RunReport, note: str) -> RunReport:
    log.warning(note)
    return replace(report, notes=(*report.notes, note))


def _eighth(progress: Progress | None, index: int) -> Progress | None:
    if progress is None:
        return None
    return lambda done, total: progress(index * total + done, 8 * total)
