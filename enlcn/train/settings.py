"""Settings of a run by their dotted names, and as `key=value` on the command line, parsed by type."""

import math
import types
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from enlcn.errors import UserError, did_you_mean
from enlcn.plain_config import Config, described, from_plain, is_union, to_plain

_BOOLEANS = dict.fromkeys(("true", "on", "yes", "1"), True) | dict.fromkeys(("false", "off", "no", "0"), False)


def setting_names(config: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted name -> value of every setting, in order."""
    names: dict[str, Any] = {}
    for entry in fields(config):
        value = getattr(config, entry.name)
        names |= setting_names(value, f"{prefix}{entry.name}.") if is_dataclass(value) else {prefix + entry.name: value}
    return names


def apply_settings(config: Config, settings: Iterable[str]) -> Config:
    """`config` changed by texts such as "loss.num_rows=16" or "model.attention.kind=nla  # exact".

    >>> from enlcn.train.config import TrainConfig
    >>> apply_settings(TrainConfig(), ["loss.num_rows=16"]).loss.num_rows
    16
    """
    names = setting_names(config)
    values = to_plain(config)
    for setting in settings:
        name, separator, text = (part.strip() for part in setting.partition("#")[0].partition("="))
        if not separator:
            raise UserError(f"'{setting}' is no setting; give key=value, for example data.batch_size=32")
        if name not in names:
            raise UserError(f"unknown setting '{name}'; {did_you_mean(name, names)}--show lists all")
        _put(values, config, name, text)
    # Built once, at the end: settings that only fit together may come in any order.
    return from_plain(type(config), values)


def differences(old: Any, new: Any) -> list[str]:
    """Dotted names of the settings that differ."""
    new_values = setting_names(new)
    return [name for name, value in setting_names(old).items() if new_values[name] != value]


def _put(values: dict[str, Any], config: Any, name: str, text: str) -> None:
    """Parse `text` as the type of the field called `name` and write it into the nested `values`."""
    *folders, last = name.split(".")
    for folder in folders:
        values, config = values[folder], getattr(config, folder)
    hint = get_type_hints(type(config))[last]
    try:
        values[last] = _parsed(hint, text)
    except ValueError:
        raise UserError(f"{name} is '{text}'; expected {described(hint)}") from None


def _parsed(hint: Any, text: str) -> Any:
    if is_union(hint):
        if text.lower() == "none":
            return None
        return _parsed(next(option for option in get_args(hint) if option is not types.NoneType), text)
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        return tuple(_parsed(item, part.strip()) for part in text.strip("()[]").split(",") if part.strip())
    if hint is bool:
        if text.lower() not in _BOOLEANS:
            raise ValueError(text)
        return _BOOLEANS[text.lower()]
    if hint is int:
        return _whole_number(text)
    value = hint(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(text)
    return value


def _whole_number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        value = float(text)  # 1e5 is a number of steps, too
    if not value.is_integer():
        raise ValueError(text)
    return int(value)
