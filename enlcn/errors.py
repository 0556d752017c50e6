"""Errors meant for the user: one line that says what is wrong, where, and what to do."""


class UserError(Exception):
    """Bad input; the command line prints the message alone and exits with code 2."""


class MissingExtraError(UserError):
    """An optional dependency is absent; the message names the extra that brings it."""

    def __init__(self, feature: str, extra: str):
        super().__init__(
            f"{feature} needs the '{extra}' extra: pip install 'enlcn[{extra}]', or '.[{extra}]' in a clone"
        )
