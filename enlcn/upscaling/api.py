"""One image held in memory: `upscale` for arrays, tensors, PIL images and paths."""

import copy
import os
from dataclasses import fields
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from enlcn.data.image import Image
from enlcn.data.image_io import load_image, to_float
from enlcn.data.in_python import image_of_array, image_of_pil, is_pil, require_floats, without_cmyk
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.open_engine import open_engine
from enlcn.upscaling.picture import upscale_image
from enlcn.upscaling.target import Target
from enlcn.zoo import known, native_scale, resolve, trained_scale


def upscale(
    image: Any,
    scale: float | None = None,
    *,
    width: int | None = None,
    height: int | None = None,
    model: str | os.PathLike[str] | SRNetwork | None = None,
    **options: Any,
) -> Any:
    """Upscale an image; what comes back is of the kind that went in.

    >>> import numpy as np
    >>> upscale(np.zeros((5, 6, 3), np.uint8), scale=2, model="untrained:enlcn-tiny").shape
    (10, 12, 3)
    >>> upscale(np.zeros((5, 6, 3), np.uint8), width=15, model="untrained:enlcn-tiny").shape
    (12, 15, 3)

    Args:
        image: a numpy array (H, W) or (H, W, 1 to 4) (grey, grey and alpha, RGB, RGBA), uint8, uint16 or floats in
            [0, 1]; a tensor (3, H, W), (1, H, W) or a batch (B, 3, H, W) of floats in [0, 1]; a PIL image, which is
            turned upright as its EXIF says; or a path. Floats a little outside are clipped.
        scale: any number up to 4; what is no trained scale is shrunk from the next one. None is the model's own.
        width, height: of the result in pixels, instead of a scale; one of them gives the other in proportion.
        model: a name, a checkpoint file, an ONNX file or a network; None takes the weights that come with the package.
        options: fields of `EngineOptions`: device, precision, mode, self_ensemble, memory_limit, tile, scratch,
            engine.

    Returns:
        The same kind; for a path an `enlcn.data.image.Image`. `enlcn.save_image` writes all but batches.
    """
    if not isinstance(model, str | os.PathLike | SRNetwork | None):
        raise UserError(f"cannot take a {type(model).__name__} as a model; give a name, a file or an enlcn network")
    names = {f.name for f in fields(EngineOptions)}
    for name in options:
        if name not in names:
            raise UserError(f"unknown option '{name}'; choose from {', '.join(sorted(names))}")
    model = model if isinstance(model, SRNetwork | None) else os.fspath(model)
    target = _target(scale, width, height, model)
    if isinstance(image, str | os.PathLike):
        image = load_image(image)
    elif is_pil(image):
        from PIL import ImageOps

        image = ImageOps.exif_transpose(image)
    size = _size(image)
    if isinstance(model, SRNetwork):
        # A copy: the caller may be training it, on another device or in another type.
        engine = Engine(copy.deepcopy(model).float(), EngineOptions(**options))
    else:
        name = resolve(model, trained_scale(target.factor(*size), model))
        engine = _engine(name, _stamp(name), EngineOptions(**options))
    if isinstance(image, Tensor):
        return _upscale_tensor(engine, image, target)
    if isinstance(image, np.ndarray):
        return _upscale_array(engine, image, target)
    if isinstance(image, Image):
        return upscale_image(engine, image, target)[0]
    return _upscale_pil(engine, image, target)


def _target(scale: Any, width: Any, height: Any, model: str | SRNetwork | None) -> Target:
    for name, given in (("width", width), ("height", height)):
        if given is not None and not isinstance(given, Integral):
            raise UserError(f"the {name} must be a whole number of pixels, not {given!r}")
    if scale is None and width is None and height is None:
        scale = model.config.scale if isinstance(model, SRNetwork) else native_scale(model)
    if scale is not None and not isinstance(scale, Real):
        raise UserError(f"the scale must be a number, not {scale!r}")
    given = (None if width is None else int(width), None if height is None else int(height))
    return Target(None if scale is None else float(scale), *given)


def _size(image: Any) -> tuple[int, int]:
    """Height and width of what is to be upscaled; an error where it is no picture."""
    if isinstance(image, Tensor):
        require_floats(image)
        if image.ndim not in (3, 4) or image.shape[-3] not in (1, 3) or 0 in image.shape:
            raise UserError(f"a tensor must be (3, H, W), (1, H, W) or (B, 3, H, W), not {tuple(image.shape)}")
        return image.shape[-2], image.shape[-1]
    if isinstance(image, np.ndarray):
        if image.ndim not in (2, 3) or 0 in image.shape:
            raise UserError(f"an array must be (H, W) or (H, W, 1 to 4), not {image.shape}")
        return image.shape[0], image.shape[1]
    if isinstance(image, Image) or is_pil(image):
        return image.height, image.width
    raise UserError(f"cannot upscale a {type(image).__name__}; give an array, a tensor, a PIL image or a path")


@lru_cache(maxsize=2)
def _engine(name: str, stamp: object, options: EngineOptions) -> Engine:
    """Engines are kept between calls; `stamp` tells a file from what it was before."""
    return open_engine(name, options)


def _stamp(name: str) -> object:
    if (shipped := known().get(name)) is not None:
        return shipped.sha256
    try:
        status = Path(name).stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _upscale_array(engine: Engine, array: np.ndarray, target: Target) -> np.ndarray:
    result, _ = upscale_image(engine, image_of_array(array), target)
    out = result.planes()
    if np.issubdtype(array.dtype, np.floating):
        out = to_float(torch.from_numpy(out)).numpy().astype(array.dtype)
    return out[..., 0] if array.ndim == 2 else out


def _upscale_tensor(engine: Engine, tensor: Tensor, target: Target) -> Tensor:
    if tensor.ndim == 4:
        return torch.stack([_upscale_tensor(engine, item, target) for item in tensor])
    array = tensor.detach().permute(1, 2, 0).float().cpu().numpy()  # numpy has no bf16
    result = torch.from_numpy(_upscale_array(engine, array, target)).permute(2, 0, 1)
    return result.to(tensor.device, tensor.dtype)


def _upscale_pil(engine: Engine, image: Any, target: Target) -> Any:
    from PIL import Image as Pillow

    image = without_cmyk(image)
    result, _ = upscale_image(engine, image_of_pil(image), target)
    planes = result.planes()
    out = Pillow.fromarray(planes[..., 0] if planes.shape[2] == 1 else planes)
    out.info.update({key: image.info[key] for key in ("icc_profile", "exif", "dpi", "xmp") if key in image.info})
    return out
