"""Image to image: `upscale` for arrays, tensors, PIL images and paths.

The network runs over the whole image where that fits in memory and by exact streaming where it does not.
"""

import os
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from enlcn.checkpoint import load
from enlcn.data.image import Image
from enlcn.data.image_io import load_image, to_float, to_uint16
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.engine import Engine, EngineOptions
from enlcn.upscaling.picture import Target, upscale_image
from enlcn.zoo import resolve, trained_scale

__all__ = ["Engine", "EngineOptions", "Target", "upscale", "upscale_image"]


def upscale(image: Any, scale: float = 4, *, model: str | SRNetwork | None = None, **options: Any) -> Any:
    """Upscale an image; what comes back is of the kind that went in.

    >>> import numpy as np
    >>> upscale(np.zeros((5, 6, 3), np.uint8), scale=2, model="untrained:enlcn-tiny").shape
    (10, 12, 3)

    Args:
        image: a numpy array (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), uint8, uint16 or float in [0, 1];
            a tensor (3, H, W), (1, H, W) or a batch (B, 3, H, W) of floats in [0, 1]; a PIL image; or a path.
        scale: any number up to 4; what is no trained scale is shrunk from the next one.
        model: a name, a checkpoint file or a network; None takes the weights that come with the package.
        options: fields of `EngineOptions`: device, precision, mode, self_ensemble, memory_limit, tile, scratch.

    Returns:
        The same kind; for a path an `enlcn.data.image.Image`, which `enlcn.data.image_io.save_image` writes.
    """
    engine = _engine(model, _trained_scale(scale, model), EngineOptions(**options))
    target = Target(scale=scale)
    if isinstance(image, Tensor):
        return _upscale_tensor(engine, image, target)
    if isinstance(image, np.ndarray):
        return _upscale_array(engine, image, target)
    if isinstance(image, str | os.PathLike):
        return upscale_image(engine, load_image(image), target)[0]
    if isinstance(image, Image):
        return upscale_image(engine, image, target)[0]
    if type(image).__module__.startswith("PIL."):
        return _upscale_pil(engine, image, target)
    raise UserError(f"cannot upscale a {type(image).__name__}; give an array, a tensor, a PIL image or a path")


def _trained_scale(scale: float, model: str | SRNetwork | None) -> int:
    return model.config.scale if isinstance(model, SRNetwork) else trained_scale(scale, model)


@lru_cache(maxsize=2)
def _engine(model: str | SRNetwork | None, scale: int, options: EngineOptions) -> Engine:
    network = model if isinstance(model, SRNetwork) else load(resolve(model, scale))
    return Engine(network, options)


def _upscale_array(engine: Engine, array: np.ndarray, target: Target) -> np.ndarray:
    planes = array[..., None] if array.ndim == 2 else array
    if planes.ndim != 3 or planes.shape[2] not in (1, 3, 4) or 0 in planes.shape:
        raise UserError(f"an array must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), not {array.shape}")
    if np.issubdtype(array.dtype, np.floating):
        # 16 bits lie between: finer than any picture, and one path for all.
        planes = to_uint16(torch.from_numpy(np.ascontiguousarray(planes, np.float32))).numpy()
    elif array.dtype not in (np.uint8, np.uint16):
        raise UserError(f"an array must be uint8, uint16 or float, not {array.dtype}")
    alpha = planes[..., 3] if planes.shape[2] == 4 else None
    result, _ = upscale_image(engine, Image(planes[..., :3] if alpha is not None else planes, alpha), target)
    out = result.planes()
    if np.issubdtype(array.dtype, np.floating):
        out = to_float(torch.from_numpy(out)).numpy().astype(array.dtype)
    return out[..., 0] if array.ndim == 2 else out


def _upscale_tensor(engine: Engine, tensor: Tensor, target: Target) -> Tensor:
    if tensor.ndim == 4:
        return torch.stack([_upscale_tensor(engine, item, target) for item in tensor])
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3) or not tensor.is_floating_point():
        raise UserError(f"a tensor must be floats (3, H, W), (1, H, W) or (B, 3, H, W), not {tuple(tensor.shape)}")
    array = tensor.detach().permute(1, 2, 0).float().cpu().numpy()
    result = torch.from_numpy(_upscale_array(engine, array, target)).permute(2, 0, 1)
    return result.to(tensor.device, tensor.dtype)


def _upscale_pil(engine: Engine, image: Any, target: Target) -> Any:
    from PIL import Image as Pillow

    wanted = {"L": "L", "1": "L", "LA": "RGBA", "P": "RGBA", "PA": "RGBA", "RGBA": "RGBA"}.get(image.mode, "RGB")
    result = Pillow.fromarray(_upscale_array(engine, np.asarray(image.convert(wanted)), target))
    if "icc_profile" in image.info:
        result.info["icc_profile"] = image.info["icc_profile"]
    return result
