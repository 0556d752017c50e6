"""Frames through the network: several at a time where they fit in memory, one by one where not.

Axes: B frames, H rows, W columns, s scale.
"""

import numpy as np
import torch
from torch import Tensor

from enlcn.data.image import Image
from enlcn.data.image_io import to_float, to_uint8, to_uint16
from enlcn.upscaling import memory
from enlcn.upscaling.devices import autocast
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.picture import upscale_image
from enlcn.upscaling.planes import MemoryPlane
from enlcn.upscaling.resizing import resize_plane
from enlcn.upscaling.target import Target
from enlcn.upscaling.tiling import Tile
from enlcn.upscaling.whole import upscale_whole

_LARGEST_BATCH = 16


class FrameUpscaler:
    """Upscales frames of one size to another.

    Args:
        engine: the network.
        size: (H, W) of the frames.
        target: (height, width) wanted.
        batch: frames at a time; None takes one on the CPU, elsewhere what fits in memory.
        deep: whether results have 16 bits, whatever the frames have.
    """

    def __init__(
        self, engine: Engine, size: tuple[int, int], target: tuple[int, int], batch: int | None = None, *, deep: bool
    ):
        self.engine, self.size, self.target, self.deep = engine, size, target, deep
        self.notes: tuple[str, ...] = ()
        self._network = engine.network
        self.batch = self._fitting_batch(batch)

    def __call__(self, frames: list[np.ndarray]) -> list[np.ndarray]:
        """RGB frames (H, W, 3), uint8 or uint16, to frames of the size wanted."""
        if len(frames) > 1 and self.batch > 1:  # what once ran out of memory is not tried again
            together = self._together(frames)
            if together is not None:
                return together
        return [self._alone(frame) for frame in frames]

    def _fitting_batch(self, wanted: int | None) -> int:
        # Another kind of engine takes one image at a time.
        if self.engine.options.self_ensemble or type(self.engine) is not Engine:
            return 1
        fits = self.engine.limit // max(1, memory.whole_image_bytes(self._network.config, *self.size))
        if self.engine.options.mode == "streaming" or fits < 1:
            return 1
        if wanted is None:
            wanted = 1 if self.engine.device.type == "cpu" else _LARGEST_BATCH
        return max(1, min(wanted, fits))

    def _alone(self, frame: np.ndarray) -> np.ndarray:
        pixels = frame if frame.dtype == np.uint16 or not self.deep else frame.astype(np.uint16) * 257
        height, width = self.target
        result, report = upscale_image(self.engine, Image(pixels), Target(width=width, height=height))
        self.notes = tuple(dict.fromkeys((*self.notes, *report.notes)))
        return np.ascontiguousarray(result.pixels)

    def _together(self, frames: list[np.ndarray]) -> list[np.ndarray] | None:
        """All frames in one pass of the network; None where that fails and they must go one by one."""
        scale, (height, width) = self.engine.scale, self.size
        exact = self.target == (height * scale, width * scale)
        narrow = exact and not self.deep and frames[0].dtype == np.uint8
        rounded = to_uint8 if narrow else to_uint16
        results = torch.empty(
            (len(frames), height * scale, width * scale, 3), dtype=torch.uint8 if narrow else torch.uint16
        )
        finite = True

        def emit(tile: Tile, sr: Tensor) -> None:
            nonlocal finite
            sr = sr.float()
            finite = finite and bool(sr.isfinite().all())
            rows = slice(tile.top * scale, tile.bottom * scale)
            results[:, rows] = rounded(sr).permute(0, 2, 3, 1).cpu()

        # (B, H, W, 3) bytes to (B, 3, H, W) floats on the device, whose memory then is channels_last already.
        stored = torch.from_numpy(np.stack(frames)).to(self.engine.device)
        try:
            with autocast(self.engine.precision, self.engine.device):
                network = self.engine.whole_network(self.engine.precision)
                upscale_whole(network, to_float(stored).permute(0, 3, 1, 2), emit)
        except Exception as error:
            if not memory.is_out_of_memory(error):
                raise
            self.batch = 1
            return None
        if not finite:
            return None
        arrays = list(results.numpy())
        dtype = np.dtype(np.uint16 if self.deep else frames[0].dtype)
        return arrays if exact else [self._resized(array, dtype) for array in arrays]

    def _resized(self, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
        result = MemoryPlane(np.empty((*self.target, 3), dtype))
        resize_plane(MemoryPlane(array), result, dtype)
        return result.array
