"""How much memory there is, how much a network takes, and the tile that fits."""

import math
import os
from pathlib import Path

import torch

from enlcn import freed_memory
from enlcn.config import ModelConfig
from enlcn.upscaling.engine_options import SMALLEST_LIMIT

DEFAULT_SHARE = 0.6
_FLOAT = 4
_LARGEST_TILE, _SMALLEST_TILE = 512, 32
_FIXED = 256 * 2**20  # the libraries themselves, once warm
_GUESS = 8 * 2**30  # where the system says nothing of its memory
_SYSTEM = Path("/proc/meminfo")
# (folder, limit, use, what of it are files that can be dropped) of a container, in both versions of control groups.
_CGROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def default_limit(device: torch.device) -> int:
    """Bytes to stay under where the user names no limit: a share of what is free."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(DEFAULT_SHARE * free)
    return int(DEFAULT_SHARE * available_memory())


def available_memory() -> int:
    """Bytes of main memory that can be had without swapping, container limits and what this process keeps included."""
    kept = freed_memory.kept_bytes()
    candidates = [_available_in_system(kept)]
    for folder, limit, use, droppable in _CGROUPS:
        try:
            used = int((folder / use).read_text()) - _field(folder / "memory.stat", droppable)
            candidates.append(int((folder / limit).read_text()) - used + kept)
        except (OSError, ValueError):  # absent, or "max"
            continue
    return max(min(candidates), SMALLEST_LIMIT)


def whole_image_bytes(config: ModelConfig, height: int, width: int) -> int:
    """Peak of `upscale_whole` beyond what the image itself takes; measured on the CPU, rounded up."""
    floats = body_floats(config) + 2 * 3 * config.scale**2
    return _FIXED + height * width * floats * _FLOAT


def tile_bytes(config: ModelConfig, side: int) -> int:
    """Peak of streaming with tiles of that side, beyond its planes and the libraries themselves."""
    halo = config.block_halo * max(num_blocks for _, num_blocks in config.stages) + 4
    # At x4 EDSR's holds the features at twice the size and, for a moment, again as they are shuffled; then, in 16 bits
    # on a GPU, nine taps of 48 numbers for each of those four pixels.
    upsampler = 12 * config.channels + {"stepwise": 2400, "direct": 600}[config.upsampler]
    floats = max(body_floats(config), upsampler)
    return (side + 2 * halo) ** 2 * floats * _FLOAT


def body_floats(config: ModelConfig) -> int:
    """Numbers a pixel that a block and what surrounds it hold at once."""
    if config.block == "gated":  # said and heard, what was spread, and their product
        return 8 * config.channels + 8 * config.inner_channels
    return 8 * config.channels + 4 * max(config.channels, config.inner_channels)


def fitting_tile(config: ModelConfig, limit: int) -> int:
    """The largest tile side that leaves half of `limit` to planes, within reason."""
    side = _LARGEST_TILE
    room = max(limit - _FIXED, limit // 4) // 2
    while side > _SMALLEST_TILE and tile_bytes(config, side) > room:
        side = int(side / math.sqrt(2)) // 8 * 8
    return max(side, _SMALLEST_TILE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short; torch has no class of its own for that on the CPU."""
    text = str(error).lower()
    is_torchs = isinstance(error, RuntimeError) and ("allocate" in text or "out of memory" in text)
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or is_torchs


def describe(error: BaseException) -> str:
    """An error that nobody expected, in one line, to follow the name of the file that it came with."""
    if is_out_of_memory(error):
        return "does not fit in memory; try --mode streaming, a smaller --memory-limit or fewer --jobs"
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _available_in_system(kept: int) -> int:
    try:
        return _field(_SYSTEM, "MemAvailable:") * 1024 + kept
    except (OSError, ValueError):
        pass
    try:  # macOS says how much there is, not how much is free
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return _GUESS


def _field(path: Path, name: str) -> int:
    """The number after a name in a file of names and numbers, a line each; ValueError where it is not there."""
    for line in path.read_text().splitlines():
        words = line.split()
        if words and words[0] == name:
            return int(words[1])
    raise ValueError(name)
