"""Image super-resolution with global attention at linear cost (ENLCN, AAAI 2022)."""

from typing import TYPE_CHECKING

from enlcn.errors import UserError
from enlcn.on_first_use import on_first_use
from enlcn.version import __version__

if TYPE_CHECKING:
    from enlcn.checkpoint import load, save
    from enlcn.data.in_python import save_image
    from enlcn.models.attention import ENLCA
    from enlcn.models.backbone import EDSR, ENLCN, SRNetwork
    from enlcn.upscaling import upscale

__all__ = ["EDSR", "ENLCA", "ENLCN", "SRNetwork", "UserError", "__version__", "load", "save", "save_image", "upscale"]

# The command line imports this package, and must start without torch.
__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "EDSR": "enlcn.models.backbone",
        "ENLCA": "enlcn.models.attention",
        "ENLCN": "enlcn.models.backbone",
        "SRNetwork": "enlcn.models.backbone",
        "load": "enlcn.checkpoint",
        "save": "enlcn.checkpoint",
        "save_image": "enlcn.data.in_python",
        "upscale": "enlcn.upscaling.api",
    },
)
