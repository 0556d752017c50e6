"""What every setting means, in one line: the words of the configs' docstrings, which so are the only ones."""

import inspect
import re
import textwrap
from dataclasses import is_dataclass
from typing import get_type_hints

_HEADING = "Attributes:\n"
_ENTRY = re.compile(r"(\w+(?:, \w+)*): (.+)", re.DOTALL)


def explanations(kind: type, prefix: str = "") -> dict[str, str]:
    """Dotted name -> explanation of every setting of a config; none of what `python -OO` has stripped.

    >>> from enlcn.train.config import TrainConfig
    >>> explanations(TrainConfig)["data.crop"]
    'p, the side of an LR crop.'
    """
    told = attributes(kind)
    found: dict[str, str] = {}
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            found |= explanations(hint, f"{prefix}{name}.")  # type: ignore[arg-type]
        elif name in told:
            found[prefix + name] = told[name]
    return found


def attributes(kind: type) -> dict[str, str]:
    """Name -> text of what a docstring and its bases' list under "Attributes:"; names on one line share its text."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        _, _, listed = inspect.cleandoc(vars(each).get("__doc__") or "").partition(_HEADING)
        listed = textwrap.dedent(listed.partition("\n\n")[0])
        for entry in re.split(r"\n(?! )", listed):  # further lines of an entry stand deeper
            if match := _ENTRY.fullmatch(entry):
                found |= dict.fromkeys(match[1].split(", "), " ".join(match[2].split()))
    return found
