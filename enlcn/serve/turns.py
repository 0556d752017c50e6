"""Whose turn it is when the queue is full: places that fall free are kept a while for those who were refused first.

Without it, whoever has just been served and asks again at once takes the place of those who wait as they were told to.
"""


class Turns:
    """The clients that were refused, in order. Not thread-safe: its owner holds a lock.

    Args:
        length: of the queue; at most half of it is kept for anyone.
    """

    def __init__(self, length: int):
        self._kept = length // 2
        self._refused: dict[str, float] = {}  # until when a place is kept for each

    def admits(self, client: str, free: int, now: float) -> bool:
        """Whether a client may have one of `free` places, once those refused before it have theirs."""
        self._refused = {name: until for name, until in self._refused.items() if until > now}
        if free <= min(self.before(client), self._kept):
            return False
        self._refused.pop(client, None)
        return True

    def before(self, client: str) -> int:
        """How many were refused before a client."""
        return list(self._refused).index(client) if client in self._refused else len(self._refused)

    def refuse(self, client: str, until: float) -> None:
        """Remember a client; one that was refused before keeps its turn."""
        self._refused[client] = until
