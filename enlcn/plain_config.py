"""Configs as plain values: frozen dataclasses to dictionaries and back, every value checked by its field's type."""

import math
import types
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from enlcn.errors import UserError

Config = TypeVar("Config")
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", types.NoneType: "none"}


def to_plain(config: Any) -> dict[str, Any]:
    """A dictionary fit for JSON."""
    return asdict(config)


def from_plain(kind: type[Config], values: Mapping[str, Any], prefix: str = "") -> Config:
    """The inverse of `to_plain`, also after JSON made lists of tuples; missing fields take their defaults.

    Args:
        kind: the dataclass.
        values: from a file, which anyone may have written.
        prefix: put before the names of settings in errors.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{prefix.rstrip('.') or 'the config'} is {values!r}; expected names and values of settings")
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            raise UserError(f"unknown setting '{prefix}{name}'; choose from {', '.join(hints)}")
    return kind(**{name: _restored(hints[name], value, prefix + name) for name, value in values.items()})


def described(hint: Any) -> str:
    """The type of a field in words."""
    if is_union(hint):
        return " or ".join(described(option) for option in get_args(hint))
    if get_origin(hint) is tuple:
        return f"several of {described(get_args(hint)[0])}, with commas between"
    return _WORDS.get(hint, "a text")


def is_union(hint: Any) -> bool:
    """Whether a field takes values of several types."""
    return get_origin(hint) in (Union, types.UnionType)


def _restored(hint: Any, value: Any, name: str) -> Any:
    if is_dataclass(hint):
        return from_plain(hint, value, f"{name}.")  # type: ignore[arg-type]
    if not _fits(hint, value):
        raise UserError(f"{name} is {value!r}; expected {described(hint)}")
    return tuple(value) if get_origin(hint) is tuple else value


def _fits(hint: Any, value: Any) -> bool:
    if is_union(hint):
        return any(_fits(option, value) for option in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, list | tuple) and all(_fits(get_args(hint)[0], item) for item in value)
    if isinstance(value, bool):  # which Python takes for a number
        return hint is bool
    if hint is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, hint)
