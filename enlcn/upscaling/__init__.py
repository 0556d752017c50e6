"""Image to image: the network over the whole image where that fits in memory, by exact streaming where it does not."""

from typing import TYPE_CHECKING

from enlcn.on_first_use import on_first_use

if TYPE_CHECKING:
    from enlcn.upscaling.api import upscale
    from enlcn.upscaling.engine import Engine
    from enlcn.upscaling.engine_options import EngineOptions
    from enlcn.upscaling.picture import upscale_image
    from enlcn.upscaling.target import Target

__all__ = ["Engine", "EngineOptions", "Target", "upscale", "upscale_image"]

# What is wrong with a command is found by the modules here that do without torch.
__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "Engine": "enlcn.upscaling.engine",
        "EngineOptions": "enlcn.upscaling.engine_options",
        "Target": "enlcn.upscaling.target",
        "upscale": "enlcn.upscaling.api",
        "upscale_image": "enlcn.upscaling.picture",
    },
)
