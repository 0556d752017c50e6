"""What one device keeps ready between jobs: networks, and the features of the picture being explored."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.open_engine import open_engine

_ENGINES = 4
_EXPLORED = 2
Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The values used last, at most `size` of them."""

    def __init__(self, size: int):
        self._size = size
        self._values: OrderedDict[object, Value] = OrderedDict()

    def get(self, key: object, make: Callable[[], Value]) -> Value:
        """The value of a key, made where it is not there."""
        if key not in self._values:
            while len(self._values) >= self._size:
                self._values.popitem(last=False)
            self._values[key] = make()
        self._values.move_to_end(key)
        return self._values[key]


class Toolbox:
    """The networks of one device; used by its worker alone."""

    def __init__(self, device: str, memory_limit: str | None):
        self.device = device
        self._memory_limit = memory_limit
        self._engines: Recent[Engine] = Recent(_ENGINES)
        self.explored: Recent[object] = Recent(_EXPLORED)

    def engine(self, checkpoint: str, precision: str, self_ensemble: bool) -> Engine:
        """A network ready to run, as `enlcn upscale` would make it."""
        options = EngineOptions(self.device, precision, self_ensemble=self_ensemble, memory_limit=self._memory_limit)
        return self._engines.get((checkpoint, options), lambda: open_engine(checkpoint, options))
