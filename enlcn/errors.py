"""Errors meant for the user: one line that says what is wrong, where, and what to do."""


class UserError(Exception):
    """Bad input; the command line prints the message alone and exits with code 2."""


def pip_install(extra: str) -> str:
    """The command that brings an extra's dependencies."""
    return f"pip install 'enlcn[{extra}]'"


class MissingExtraError(UserError):
    """An optional dependency is absent; the message names the extra that brings it."""

    def __init__(self, feature: str, extra: str):
        super().__init__(f"{feature} needs the '{extra}' extra: {pip_install(extra)}, or '.[{extra}]' in a clone")
