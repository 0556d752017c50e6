"""Torch devices by the names users give them, or one line that says why not."""

import torch

from enlcn.errors import UserError

# Of the kinds that torch knows, those that networks of this package run on.
_KNOWN = ("cpu", "cuda", "cuda:1", "mps")


def usable_device(name: str | torch.device, *, also: tuple[str, ...] = ()) -> torch.device:
    """The device called `name`, tried out; `also` are names that the caller takes besides."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):  # torch would list twenty kinds, most of them for its own developers
        known = ", ".join((*also, *_KNOWN))
        raise UserError(f"device '{name}' cannot be used (no such device); choose from {known}") from None
    if device.type == "meta":
        raise UserError(f"device '{name}' cannot be used (it computes nothing); choose from {', '.join(_KNOWN)}")
    try:
        torch.empty(1, device=device)
    except NotImplementedError:  # torch would list all its backends
        reason = f"there is no {device.type} on this machine, or not in this build of PyTorch"
        raise UserError(f"device '{name}' cannot be used ({reason}); cpu always can") from None
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise UserError(f"device '{name}' cannot be used ({reason}); cpu always can") from None
    return device
