"""PSNR on held-out images while training: LR by MATLAB's resize, 8-bit results, Y without the border."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from PIL import UnidentifiedImageError
from torch import Tensor, nn

from enlcn.data.degradation import Degradation
from enlcn.data.image_io import to_float, to_uint8
from enlcn.data.resize import imresize_torch
from enlcn.data.shards import ImageFile, crop_to_multiple, decode
from enlcn.errors import UserError
from enlcn.metrics.psnr import psnr
from enlcn.models.backbone import SRNetwork

Item = TypeVar("Item")
VALIDATION_SEED = 0  # of what held-out images go through: the same for every run, so that their PSNR can be compared


@dataclass(frozen=True)
class HeldOutImage:
    """lr (1, 3, H, W) and hr (1, 3, sH, sW), uint8."""

    name: str
    lr: Tensor
    hr: Tensor


@dataclass(frozen=True)
class Validation:
    """Mean PSNR in dB, and the first image's result (1, 3, sH, sW), uint8, to look at."""

    psnr: float
    sample: Tensor


def load_held_out(
    files: Sequence[ImageFile],
    scale: int,
    *,
    limit: int | None = None,
    crop: int | None = None,
    degrade: Degradation | None = None,
) -> list[HeldOutImage]:
    """Decode images to validate on, with LR made from them.

    Args:
        files: see `find_images`.
        scale: s.
        limit: at most so many, spread evenly over `files`.
        crop: keep only the centre, of this LR side.
        degrade: what LR goes through, each image as the sample of its number.
    """
    if not files:
        raise UserError("there are no images to validate on")
    images: list[HeldOutImage] = []
    for file in spread(files, limit):
        try:
            hr = crop_to_multiple(decode(file), scale)
        except UnidentifiedImageError:  # names no file, but the buffer it was read into
            raise UserError(f"{file.name}: cannot be validated on: not a readable image") from None
        except Exception as error:  # Pillow's readers let through whatever Python raised in them
            raise UserError(f"{file.name}: cannot be validated on ({error})") from None
        planes = _centre(torch.from_numpy(hr.copy()).permute(2, 0, 1), crop * scale if crop else None, scale)
        if min(planes.shape[1:]) <= 2 * scale:
            size = "x".join(map(str, planes.shape[:0:-1]))
            reason = f"of {size} pixels PSNR leaves out {scale} at each edge"
            raise UserError(f"{file.name}: too small to validate on: {reason}")
        lr = imresize_torch(planes, 1 / scale)[None]
        if degrade is not None:
            lr = degrade(lr, torch.tensor([len(images)]))
        images.append(HeldOutImage(file.name, lr, planes[None]))
    return images


def validate(network: SRNetwork, images: Sequence[HeldOutImage], device: torch.device) -> Validation:
    """Mean PSNR of `network`, which must be on `device`, in float32."""
    results = list(_upscaled(network, images, device))
    scores = [_score(sr, image) for sr, image in zip(results, images, strict=True)]
    return Validation(sum(scores) / len(scores), results[0])


def psnrs(network: nn.Module, images: Sequence[HeldOutImage], device: torch.device) -> list[float]:
    """PSNR on Y of each image in dB, without a border as wide as the scale; the network must be on `device`."""
    return [_score(sr, image) for sr, image in zip(_upscaled(network, images, device), images, strict=True)]


def spread(items: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """At most `limit` of `items`, spread evenly; all where it is None."""
    if limit is None or limit >= len(items):
        return items
    return [items[index * len(items) // limit] for index in range(limit)]


@torch.no_grad()
def _upscaled(network: nn.Module, images: Sequence[HeldOutImage], device: torch.device) -> Iterator[Tensor]:
    """Each result (1, 3, sH, sW), uint8, on the CPU."""
    tuned, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, False  # every image has another size
    try:
        for image in images:
            yield to_uint8(network(to_float(image.lr.to(device)))).cpu()
    finally:
        torch.backends.cudnn.benchmark = tuned


def _score(sr: Tensor, image: HeldOutImage) -> float:
    return psnr(sr, image.hr, shave=image.hr.shape[-1] // image.lr.shape[-1])


def _centre(planes: Tensor, side: int | None, scale: int) -> Tensor:
    """The middle `side` x `side` of (3, H, W), starting at a multiple of the scale."""
    if side is None:
        return planes
    top, left = ((max(0, length - side) // 2 // scale) * scale for length in planes.shape[-2:])
    return planes[:, top : top + side, left : left + side]
