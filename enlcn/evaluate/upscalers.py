"""What is compared: plain bicubic and networks, each as one function from LR to SR, uint8 to uint8."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from enlcn.checkpoint import load
from enlcn.data.image_io import to_float, to_uint8
from enlcn.data.resize import imresize_torch
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.devices import autocast, resolve_device, resolve_precision
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.ensemble import mean_over_turns
from enlcn.upscaling.tiling import Tile
from enlcn.zoo import resolve

BICUBIC = "bicubic"
ModelSource = str | os.PathLike[str] | nn.Module


@dataclass(frozen=True)
class Upscaler:
    """A named way from lr (1, 3, H, W) to sr (1, 3, sH, sW), uint8 both."""

    name: str
    source: str
    parameters: int
    upscale: Callable[[Tensor], Tensor]


def bicubic(scale: int, name: str = BICUBIC) -> Upscaler:
    """MATLAB's bicubic interpolation of the 8-bit image."""
    return Upscaler(name, BICUBIC, 0, lambda lr: imresize_torch(lr, float(scale)))


def from_network(name: str, network: nn.Module, options: EngineOptions, *, scale: int, source: str = "") -> Upscaler:
    """A network that maps (B, 3, H, W) in [0, 1] to (B, 3, sH, sW): one of ours, or any other module."""
    built_for = getattr(getattr(network, "config", None), "scale", scale)
    if built_for != scale:
        raise UserError(f"{source or name}: the network upscales x{built_for}, the evaluation is x{scale}")
    parameters = sum(parameter.numel() for parameter in network.parameters())
    if isinstance(network, SRNetwork):
        upscale = _with_engine(name, network, options)
    else:
        upscale = _with_module(name, network, options)
    return Upscaler(name, source or type(network).__name__, parameters, upscale)


def _with_engine(name: str, network: SRNetwork, options: EngineOptions) -> Callable[[Tensor], Tensor]:
    engine = Engine(network, options)

    def upscale(lr: Tensor) -> Tensor:
        height, width = lr.shape[-2:]
        s = engine.scale
        sr = torch.empty(1, 3, s * height, s * width, dtype=torch.uint8)

        def read(tile: Tile) -> Tensor:
            return to_float(lr[..., tile.top : tile.bottom, tile.left : tile.right])

        def emit(tile: Tile, part: Tensor) -> None:
            sr[..., s * tile.top : s * tile.bottom, s * tile.left : s * tile.right] = to_uint8(part)

        report = engine.upscale(height, width, read, emit)
        if report.precision != engine.precision:
            raise _not_finite(name, engine.precision)
        return sr

    return upscale


def _with_module(name: str, network: nn.Module, options: EngineOptions) -> Callable[[Tensor], Tensor]:
    if options.mode == "streaming":
        raise UserError(f"{name}: only networks of this package can be streamed; evaluate it with --mode whole")
    device = resolve_device(options.device)
    precision = resolve_precision(options.precision, device)
    network = network.to(device).eval()

    def upscale(lr: Tensor) -> Tensor:
        with torch.inference_mode(), autocast(precision, device):
            values = to_float(lr.to(device))
            sr = mean_over_turns(network, values) if options.self_ensemble else network(values).float()
        if not bool(sr.isfinite().all()):
            raise _not_finite(name, precision)
        return to_uint8(sr)

    return upscale


def _not_finite(name: str, precision: str) -> UserError:
    return UserError(f"{name} returned NaN or infinity in {precision}; evaluate it in fp32 or bf16")


def build_upscalers(models: dict[str, ModelSource], options: EngineOptions, *, scale: int) -> list[Upscaler]:
    """An upscaler for each model: "bicubic", what `enlcn.zoo.resolve` makes a checkpoint of, or a network."""
    built = []
    for name, source in models.items():
        if source == BICUBIC:
            built.append(bicubic(scale, name))
            continue
        if isinstance(source, nn.Module):
            built.append(from_network(name, source, options, scale=scale))
            continue
        origin = resolve(os.fspath(source), scale)
        built.append(from_network(name, load(origin), options, scale=scale, source=origin))
    return built


def label_models(sources: list[str]) -> dict[str, ModelSource]:
    """Short names for tables: the stem of a file where that is unambiguous, else the whole path."""
    stems = [Path(source).stem if Path(source).suffix else source for source in sources]
    return {stem if stems.count(stem) == 1 else source: source for stem, source in zip(stems, sources, strict=True)}
