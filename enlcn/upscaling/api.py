"""One image held in memory: `upscale` for arrays, tensors, PIL images and paths."""

import copy
import io
import os
from dataclasses import fields
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from enlcn.data.image import Image, split_alpha
from enlcn.data.image_io import load_image, to_float, to_uint16
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.open_engine import open_engine
from enlcn.upscaling.picture import upscale_image
from enlcn.upscaling.target import Target
from enlcn.zoo import known, native_scale, resolve, trained_scale


def upscale(
    image: Any, scale: float | None = None, *, model: str | os.PathLike[str] | SRNetwork | None = None, **options: Any
) -> Any:
    """Upscale an image; what comes back is of the kind that went in.

    >>> import numpy as np
    >>> upscale(np.zeros((5, 6, 3), np.uint8), scale=2, model="untrained:enlcn-tiny").shape
    (10, 12, 3)

    Args:
        image: a numpy array (H, W) or (H, W, 1 to 4) (grey, grey and alpha, RGB, RGBA), uint8, uint16 or floats in
            [0, 1]; a tensor (3, H, W), (1, H, W) or a batch (B, 3, H, W) of floats in [0, 1]; a PIL image, which is
            turned upright as its EXIF says; or a path.
        scale: any number up to 4; what is no trained scale is shrunk from the next one. None is the model's own.
        model: a name, a checkpoint file, an ONNX file or a network; None takes the weights that come with the package.
        options: fields of `EngineOptions`: device, precision, mode, self_ensemble, memory_limit, tile, scratch,
            engine.

    Returns:
        The same kind; for a path an `enlcn.data.image.Image`, which `enlcn.data.image_io.save_image` writes.
    """
    if not isinstance(model, str | os.PathLike | SRNetwork | None):
        raise UserError(f"cannot take a {type(model).__name__} as a model; give a name, a file or an enlcn network")
    names = {f.name for f in fields(EngineOptions)}
    for name in options:
        if name not in names:
            raise UserError(f"unknown option '{name}'; choose from {', '.join(sorted(names))}")
    model = model if isinstance(model, SRNetwork | None) else os.fspath(model)
    if scale is None:
        scale = model.config.scale if isinstance(model, SRNetwork) else native_scale(model)
    if not isinstance(scale, Real):
        raise UserError(f"the scale must be a number, not {scale!r}")
    target = Target(scale=scale)
    if isinstance(model, SRNetwork):
        # A copy: the caller may be training it, on another device or in another type.
        engine = Engine(copy.deepcopy(model).float(), EngineOptions(**options))
    else:
        name = resolve(model, trained_scale(scale, model))
        engine = _engine(name, _stamp(name), EngineOptions(**options))
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
    planes = array[..., None] if array.ndim == 2 else array
    if planes.ndim != 3 or not 1 <= planes.shape[2] <= 4 or 0 in planes.shape:
        raise UserError(f"an array must be (H, W) or (H, W, 1 to 4), not {array.shape}")
    if np.issubdtype(array.dtype, np.floating):
        _require_unit_range(float(planes.min()), float(planes.max()))
        # 16 bits lie between: finer than any picture, and one path for all.
        planes = to_uint16(torch.from_numpy(np.ascontiguousarray(planes, np.float32))).numpy()
    elif array.dtype not in (np.uint8, np.uint16):
        raise UserError(f"an array must be uint8, uint16 or float, not {array.dtype}")
    pixels, alpha = split_alpha(planes)
    result, _ = upscale_image(engine, Image(pixels, alpha), target)
    out = result.planes()
    if np.issubdtype(array.dtype, np.floating):
        out = to_float(torch.from_numpy(out)).numpy().astype(array.dtype)
    return out[..., 0] if array.ndim == 2 else out


def _upscale_tensor(engine: Engine, tensor: Tensor, target: Target) -> Tensor:
    if tensor.ndim == 4 and len(tensor):
        return torch.stack([_upscale_tensor(engine, item, target) for item in tensor])
    if tensor.ndim != 3 or tensor.shape[0] not in (1, 3) or not tensor.is_floating_point():
        raise UserError(f"a tensor must be floats (3, H, W), (1, H, W) or (B, 3, H, W), not {tuple(tensor.shape)}")
    array = tensor.detach().permute(1, 2, 0).float().cpu().numpy()
    result = torch.from_numpy(_upscale_array(engine, array, target)).permute(2, 0, 1)
    return result.to(tensor.device, tensor.dtype)


def _require_unit_range(lowest: float, highest: float) -> None:
    # Ringing of an earlier step may lie a little outside; NaN fails both comparisons.
    if not (lowest >= -0.5 and highest <= 1.5):
        raise UserError(f"floats must lie in [0, 1], these reach from {lowest:g} to {highest:g}; divide bytes by 255")


# What Pillow's modes are upscaled as; all others as RGB.
_PIL_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "PA": "RGBA", "RGBA": "RGBA", "RGBa": "RGBA"}


def _upscale_pil(engine: Engine, image: Any, target: Target) -> Any:
    from PIL import Image as Pillow
    from PIL import ImageOps

    if image.mode == "F":
        raise UserError("a PIL image of mode F has no fixed range; give its array scaled to [0, 1]")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise UserError(f"a PIL image of mode {image.mode} must hold 16-bit values")
        result = Pillow.fromarray(_upscale_array(engine, values.astype(np.uint16), target))
    else:
        wanted = _PIL_MODES.get(image.mode, "RGBA" if "transparency" in image.info else "RGB")
        image = _without_cmyk(image)
        result = Pillow.fromarray(_upscale_array(engine, np.asarray(image.convert(wanted)), target))
    result.info.update({key: image.info[key] for key in ("icc_profile", "exif", "dpi", "xmp") if key in image.info})
    return result


def _without_cmyk(image: Any) -> Any:
    """CMYK through its profile to sRGB, as files are read; everything else as it is."""
    from PIL import ImageCms

    if image.mode != "CMYK":
        return image
    kept = {key: value for key, value in image.info.items() if key != "icc_profile"}
    if "icc_profile" in image.info:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(image.info["icc_profile"]))
        image = ImageCms.profileToProfile(image, profile, ImageCms.createProfile("sRGB"), outputMode="RGB")
    image = image.convert("RGB")
    image.info = kept
    return image
