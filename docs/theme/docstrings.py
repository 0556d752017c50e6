"""An extension of Griffe, which reads our docstrings for the site: examples become code, "q, k: ..." two parameters."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>> |\s*$).*\n?)*)+", re.M)
# Several names with one text, which may go on in lines that are indented further.
_SEVERAL = re.compile(r"^    (\w+(?:, \w+)+): (.*(?:\n {5,}.*)*)", re.M)


class HouseStyle(griffe.Extension):
    """Our docstrings as Griffe's Google parser understands them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that is documented."""
        if obj.docstring is None:
            return
        text = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
        obj.docstring.value = _SEVERAL.sub(_each, text)


def _each(found: re.Match[str]) -> str:
    return "\n".join(f"    {name}: {found[2]}" for name in found[1].split(", "))
