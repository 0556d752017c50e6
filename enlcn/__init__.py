"""Image super-resolution with global attention at linear cost (ENLCN, AAAI 2022)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from enlcn.version import __version__

if TYPE_CHECKING:
    from enlcn.checkpoint import load
    from enlcn.models.attention import ENLCA
    from enlcn.models.backbone import EDSR, ENLCN, SRNetwork
    from enlcn.upscaling import upscale

__all__ = ["EDSR", "ENLCA", "ENLCN", "SRNetwork", "__version__", "load", "upscale"]

# Resolved on first use: the command line imports this package and must start without torch.
_HOMES = {
    "EDSR": "enlcn.models.backbone",
    "ENLCA": "enlcn.models.attention",
    "ENLCN": "enlcn.models.backbone",
    "SRNetwork": "enlcn.models.backbone",
    "load": "enlcn.checkpoint",
    "upscale": "enlcn.upscaling",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'enlcn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
