"""The node "Upscale Image (ENLCN, exact)": the whole picture at once, or streamed with the same result.

ComfyUI's own "Upscale Image (using Model)" works too, but cuts every picture into tiles of 512, which changes what a
network computes that looks at the whole picture.

Axes: B pictures, H rows, W columns, C = 3 or 4 channels, s scale.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from enlcn.export.spandrel import run
from enlcn.models.backbone import SRNetwork


class ENLCNUpscale:
    """IMAGE and UPSCALE_MODEL (from "Load Upscale Model") to IMAGE."""

    CATEGORY = "image/upscaling"
    FUNCTION = "upscale"
    RETURN_TYPES: ClassVar[tuple[str, ...]] = ("IMAGE",)
    DESCRIPTION = "Upscales with an ENLCN model without tiles; pictures that do not fit in memory are streamed exactly."

    @classmethod
    def INPUT_TYPES(cls) -> dict[str, Any]:
        """What the node is connected to."""
        return {"required": {"upscale_model": ("UPSCALE_MODEL",), "image": ("IMAGE",)}}

    @torch.inference_mode()
    def upscale(self, upscale_model: Any, image: Tensor) -> tuple[Tensor]:
        """(B, H, W, C) in [0, 1] -> (B, sH, sW, C) in [0, 1]."""
        from comfy import model_management
        from comfy.utils import ProgressBar

        if not isinstance(upscale_model.model, SRNetwork):
            raise ValueError("this node is for ENLCN models; take 'Upscale Image (using Model)' for others")
        device = model_management.get_torch_device()
        upscale_model.to(device)
        bar = ProgressBar(100 * image.shape[0])
        results = []
        try:
            for index, picture in enumerate(image.movedim(-1, -3).split(1)):

                def progress(done: int, total: int, before: int = 100 * index) -> None:
                    model_management.throw_exception_if_processing_interrupted()
                    bar.update_absolute(before + 100 * done // total)

                rgb = picture[:, :3].to(device, upscale_model.dtype)
                results.append(_with_alpha(run(upscale_model.model, rgb, progress), picture))
        finally:
            upscale_model.to(torch.device("cpu"))  # room for what comes next
        return (torch.cat(results).movedim(-3, -1).contiguous(),)


def _with_alpha(sr: Tensor, picture: Tensor) -> Tensor:
    """SR (1, 3, sH, sW) with the alpha of the picture (1, C, H, W), enlarged smoothly, where C = 4."""
    sr = sr.float().cpu().clamp(0, 1)
    if picture.shape[1] < 4:
        return sr
    alpha = interpolate(picture[:, 3:].float().cpu(), size=sr.shape[-2:], mode="bicubic", antialias=True)
    return torch.cat([sr, alpha.clamp(0, 1)], dim=1)


NODE_CLASS_MAPPINGS = {"ENLCNUpscale": ENLCNUpscale}
NODE_DISPLAY_NAME_MAPPINGS = {"ENLCNUpscale": "Upscale Image (ENLCN, exact)"}
