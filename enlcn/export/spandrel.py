"""ENLCN for spandrel, and so for ComfyUI and chaiNNer: `register()` once, then `spandrel.ModelLoader` knows our files.

Both layouts are recognised, ours and the authors', and hyper-parameters inferred. Images that do not fit in memory are
streamed exactly, so that a program need not cut them into tiles.

Axes: B batch, H rows, W columns, s scale.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from enlcn import authors_format
from enlcn.checkpoint import CONFIG_TENSOR, Checkpoint, build
from enlcn.errors import MissingExtraError, UserError
from enlcn.export.infer import config_tensor, infer_config, is_our_layout
from enlcn.file_metadata import file_metadata
from enlcn.files import atomic_write
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.streaming import Progress
from enlcn.upscaling.tiling import Tile
from enlcn.weights_file import weights_bytes

if TYPE_CHECKING:
    from spandrel import ArchRegistry, ImageModelDescriptor

ARCHITECTURE = "ENLCN"
_AUTHORS_KEYS = ("head.0.weight", "body.0.conv_match1.0.weight", "body.0.attn_fn.projection_matrix", "tail.1.weight")


def register(registry: "ArchRegistry | None" = None) -> None:
    """Teach spandrel ENLCN; a second call changes nothing.

    Args:
        registry: what to add it to; None is spandrel's MAIN_REGISTRY, which every ModelLoader asks.
    """
    spandrel = _import_spandrel()
    target = spandrel.MAIN_REGISTRY if registry is None else registry
    if ARCHITECTURE in target:
        return
    # Asked first: others recognise networks of EDSR's lineage by fewer keys.
    others = tuple(support.architecture.id for support in target)
    target.add(spandrel.ArchSupport.from_architecture(_architecture(spandrel), before=others))


def load(state: dict[str, Any]) -> SRNetwork:
    """The network of a state dict in our layout or the authors', in float32."""
    tensors = {key: value.float() if value.is_floating_point() else value for key, value in state.items()}
    if is_our_layout(tensors):
        config = infer_config(tensors)
        tensors.pop(CONFIG_TENSOR, None)
        return build(Checkpoint(config, tensors, "enlcn")).eval()
    config = authors_format.infer_config(tensors)
    return build(Checkpoint(config, authors_format.to_ours(tensors, config), "authors")).eval()


def save(network: SRNetwork, path: str | os.PathLike[str], *, half: bool = False, overwrite: bool = False) -> None:
    """Write weights for spandrel, the config among them as a tensor: nothing has to be inferred.

    Args:
        network: what to save.
        path: must end in .safetensors.
        half: store weights as float16.
        overwrite: replace an existing file.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise UserError(f"{path}: weights are written as .safetensors; choose such a name")
    tensors = {key: value.detach().cpu().contiguous() for key, value in network.state_dict().items()}
    if half:
        tensors = {key: value.half() for key, value in tensors.items()}
    with atomic_write(path, overwrite=overwrite) as temporary:
        tensors |= {CONFIG_TENSOR: config_tensor(network.config)}
        temporary.write_bytes(weights_bytes(tensors, file_metadata(network.config)))


def run(network: SRNetwork, image: Tensor, progress: Progress | None = None) -> Tensor:
    """A network over an image, whole where memory allows and streamed exactly where not.

    Args:
        network: on any device, in any type.
        image: (B, 3, H, W) in [0, 1], of the network's device and type.
        progress: called with (steps done, steps in all) of each image.

    Returns:
        (B, 3, sH, sW) of the same.
    """
    engine = Engine(network, EngineOptions(device=str(image.device), precision="fp32"))
    return torch.cat([_run_one(engine, single, progress) for single in image.split(1)])


def _run_one(engine: Engine, image: Tensor, progress: Progress | None) -> Tensor:
    height, width = image.shape[-2:]
    scale = engine.scale
    result = torch.empty(1, 3, height * scale, width * scale)

    def read(tile: Tile) -> Tensor:
        return image[..., tile.top : tile.bottom, tile.left : tile.right]

    def emit(tile: Tile, sr: Tensor) -> None:
        result[..., tile.top * scale : tile.bottom * scale, tile.left * scale : tile.right * scale] = sr

    engine.upscale(height, width, read, emit, progress)
    return result.to(image.device, image.dtype)


def _architecture(spandrel: Any) -> Any:
    """The architecture, made when spandrel is there to derive it from."""

    class ENLCNArchitecture(spandrel.Architecture):
        def __init__(self) -> None:
            super().__init__(id=ARCHITECTURE, name=ARCHITECTURE, detect=_detect)

        def load(self, state_dict: dict[str, Any]) -> "ImageModelDescriptor[SRNetwork]":
            network = load(state_dict)
            config = network.config
            tags = [f"{config.channels}nf", f"{config.num_blocks}nb"]
            if config.num_attentions:
                tags.append(f"{config.num_attentions}x{config.attention.kind}")
            descriptor: ImageModelDescriptor[SRNetwork] = spandrel.ImageModelDescriptor(
                network,
                network.state_dict(),
                architecture=self,
                purpose="SR",
                tags=tags,
                supports_half=True,
                supports_bfloat16=True,
                scale=config.scale,
                input_channels=3,
                output_channels=3,
                size_requirements=spandrel.SizeRequirements(minimum=1),
                tiling=spandrel.ModelTiling.INTERNAL,
                call_fn=run,
            )
            return descriptor

    return ENLCNArchitecture()


def _detect(state: dict[str, Any]) -> bool:
    return is_our_layout(state) or all(key in state for key in _AUTHORS_KEYS)


def _import_spandrel() -> Any:
    try:
        import spandrel
    except ModuleNotFoundError as error:
        if error.name == "spandrel":
            raise MissingExtraError("spandrel", "spandrel") from None
        raise UserError(f"spandrel cannot be imported: it needs {error.name}, which is not installed") from None
    return spandrel
