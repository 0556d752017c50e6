"""The three names of torchvision that spandrel imports and ENLCN never calls, where torchvision is not installed.

There is no build of torchvision for every CPU build of PyTorch, and none is needed to run spandrel's registry, loader
and descriptors, which are the real ones here.
"""

import importlib.util
import sys
import types


def install() -> None:
    """Make `import torchvision.transforms.functional` work."""
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is not None:
        return

    def not_here(*args, **kwargs):
        raise NotImplementedError("torchvision is not installed")

    functional = types.ModuleType("torchvision.transforms.functional")
    functional.InterpolationMode = types.SimpleNamespace(NEAREST="nearest", BILINEAR="bilinear")
    functional.rotate = functional.normalize = not_here
    transforms = types.ModuleType("torchvision.transforms")
    transforms.functional = functional
    torchvision = types.ModuleType("torchvision")
    torchvision.transforms = transforms
    for module in (torchvision, transforms, functional):
        sys.modules[module.__name__] = module


def remove() -> None:
    """Undo `install`, and forget spandrel, which holds on to it."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("torchvision", "spandrel"):
            del sys.modules[name]
