"""Who is next: start-time fair queueing, so that no client waits for another's long row of large pictures.

Each item costs something (its pixels). An item starts, in virtual time, when its client's item before it ends, or now;
the one that starts first is next. A client alone gets everything; clients together share by cost, not by count.
"""

import heapq
import itertools
from collections import Counter
from typing import Generic, TypeVar

Item = TypeVar("Item")
_REMEMBERED = 4096  # clients whose past is kept before those who owe nothing are forgotten


class FairQueue(Generic[Item]):
    """A queue of items that belong to clients. Not thread-safe: its owner holds a lock.

    >>> queue = FairQueue()
    >>> for item in ("a1", "a2", "a3"):
    ...     queue.put("a", item, cost=1)
    >>> queue.put("b", "b1", cost=1)
    >>> [queue.take() for _ in range(4)]
    ['a1', 'b1', 'a2', 'a3']
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str, Item]] = []
        self._costs: dict[int, float] = {}  # by the order of coming
        self._count = itertools.count()  # among equal starts, first come first served
        self._now = 0.0
        self._free_at: dict[str, float] = {}
        self._waiting: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._heap)

    def waiting(self, client: str) -> int:
        """How many items of a client wait."""
        return self._waiting[client]

    def put(self, client: str, item: Item, cost: float) -> None:
        """Add an item."""
        if len(self._free_at) > _REMEMBERED:
            self._free_at = {name: time for name, time in self._free_at.items() if time > self._now}
        start = max(self._now, self._free_at.get(client, 0.0))
        self._free_at[client] = start + cost
        self._waiting[client] += 1
        number = next(self._count)
        self._costs[number] = cost
        heapq.heappush(self._heap, (start, number, client, item))

    def take(self) -> Item:
        """The next item; IndexError where there is none."""
        start, number, client, item = heapq.heappop(self._heap)
        del self._costs[number]
        self._now = max(self._now, start)
        self._left(client)
        return item

    def remove(self, item: Item) -> bool:
        """Take an item out wherever it stands; False where it is not in the queue."""
        for place, (_, number, client, known) in enumerate(self._heap):
            if known is item:
                del self._heap[place]
                cost = self._costs.pop(number)
                if client in self._free_at:
                    self._free_at[client] -= cost  # what was not done costs nothing
                heapq.heapify(self._heap)
                self._left(client)
                return True
        return False

    def order(self) -> list[Item]:
        """Items as they will be taken if no more come."""
        return [entry[3] for entry in sorted(self._heap, key=lambda entry: entry[:2])]

    def _left(self, client: str) -> None:
        self._waiting[client] -= 1
        if not self._waiting[client]:
            del self._waiting[client]
        if not self._heap:  # nothing to be fair about: no memory of past clients is kept
            self._free_at.clear()
            self._now = 0.0
