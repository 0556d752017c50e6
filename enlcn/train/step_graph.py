"""A training step as one CUDA graph: a few steps run eagerly, one is recorded, the rest are replays."""

import logging
from collections import deque
from collections.abc import Callable

import torch

log = logging.getLogger(__name__)
# Libraries choose algorithms and allocate workspaces in their first calls, which a capture cannot hold.
_EAGER_STEPS = 3
# The host may run so many steps ahead of the device: enough to hide launches, few enough to keep to a budget.
_STEPS_IN_FLIGHT = 4


class StepGraph:
    """Runs `body`, which takes and returns nothing: all it reads and writes lies in tensors that stay.

    Every call is one real step, also those before the capture. Where a capture fails, steps go on eagerly.
    """

    def __init__(self, body: Callable[[], None], device: torch.device):
        self._body = body
        self._device = device
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._gave_up = False

    def __call__(self) -> None:
        """Do one step."""
        if self._graph is None and not self._gave_up and self._calls >= _EAGER_STEPS:
            self._capture()
        self._calls += 1
        if self._graph is not None:
            self._graph.replay()
        else:
            self._run_on_side_stream()

    @property
    def is_captured(self) -> bool:
        """Whether steps are replays by now."""
        return self._graph is not None

    def _run_on_side_stream(self) -> None:
        current = torch.cuda.current_stream(self._device)
        side = torch.cuda.Stream(self._device)
        side.wait_stream(current)
        with torch.cuda.stream(side):
            self._body()
        current.wait_stream(side)

    def _capture(self) -> None:
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        try:
            # thread_local: other threads may go on pinning memory for the batches to come.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._body()
        except RuntimeError as error:
            log.warning("the step cannot be captured, going on without a CUDA graph: %s", str(error).splitlines()[0])
            torch.cuda.synchronize(self._device)
            self._gave_up = True
        else:
            self._graph = graph


class Pace:
    """Keeps the host at most a few steps ahead of a CUDA device; nothing to do elsewhere."""

    def __init__(self, device: torch.device):
        self._device = device
        self._marks: deque[torch.cuda.Event] = deque()

    def mark_step(self) -> None:
        """Note that a step has been launched, and wait for the one that lies too far behind."""
        if self._device.type != "cuda":
            return
        mark = torch.cuda.Event()
        mark.record(torch.cuda.current_stream(self._device))
        self._marks.append(mark)
        if len(self._marks) > _STEPS_IN_FLIGHT:
            self._marks.popleft().synchronize()
