"""Errors meant for the user: one line that says what is wrong, where, and what to do."""

import re
from collections.abc import Collection
from difflib import get_close_matches

# Control characters, other ends of lines, and what stands for bytes that are no UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class UserError(Exception):
    """Bad input; the command line prints the message alone and exits with code 2."""


def require(condition: bool, message: str) -> None:
    """A `UserError` where a condition does not hold."""
    if not condition:
        raise UserError(message)


def require_choice(name: str, value: object, choices: Collection[object]) -> None:
    """A `UserError` that lists the choices where a value is none of them."""
    require(value in choices, f"{name} is {value!r}; choose from {', '.join(map(str, choices))}")


def pip_install(extra: str) -> str:
    """The command that brings an extra's dependencies."""
    return f"pip install 'enlcn[{extra}]'"


def printable(text: str) -> str:
    """Text in one line that any terminal and any JSON reader takes: what names may hold besides is escaped.

    >>> print(printable("new\\nline.png"), printable(b"bad\\xff.png".decode(errors="surrogateescape")))
    new\\nline.png bad\\xff.png
    """
    return _UNPRINTABLE.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte of a name that is no UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def did_you_mean(name: str, known: Collection[str], *, most: int = 3) -> str:
    """Those of `known` that are most like `name`, as a question to go before other advice; "" where none is.

    >>> did_you_mean("data.batchsize", ["data.batch_size", "total_steps"])
    'did you mean data.batch_size? '
    """
    close = get_close_matches(name.lower(), known, n=most)
    # A bare name, or one under the wrong heading, is like the last part of the right one.
    close += [full for full in known if full.split(".")[-1] == name.split(".")[-1] and full not in close]
    return f"did you mean {' or '.join(close)}? " if close else ""


class MissingExtraError(UserError):
    """An optional dependency is absent; the message names the extra that brings it."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs the '{extra}' extra: {pip_install(extra)}, or '.[{extra}]' in a clone")
