"""Image super-resolution with global attention at linear cost (ENLCN, AAAI 2022)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from enlcn.errors import UserError
from enlcn.version import __version__

if TYPE_CHECKING:
    from enlcn.checkpoint import load, save
    from enlcn.data.image_io import save_image
    from enlcn.models.attention import ENLCA
    from enlcn.models.backbone import EDSR, ENLCN, SRNetwork
    from enlcn.upscaling import upscale

__all__ = ["EDSR", "ENLCA", "ENLCN", "SRNetwork", "UserError", "__version__", "load", "save", "save_image", "upscale"]

# Resolved on first use: the command line imports this package and must start without torch.
_HOMES = {
    "EDSR": "enlcn.models.backbone",
    "ENLCA": "enlcn.models.attention",
    "ENLCN": "enlcn.models.backbone",
    "SRNetwork": "enlcn.models.backbone",
    "load": "enlcn.checkpoint",
    "save": "enlcn.checkpoint",
    "save_image": "enlcn.data.image_io",
    "upscale": "enlcn.upscaling",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'enlcn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
