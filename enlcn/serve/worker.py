"""One thread per device that takes jobs from the queue and runs them, one after the other."""

import logging
import threading

from enlcn import freed_memory
from enlcn.serve.catalogue import Catalogue
from enlcn.serve.studio import Studio
from enlcn.serve.toolbox import Toolbox

log = logging.getLogger(__name__)


class Worker:
    """The thread of one device."""

    def __init__(self, studio: Studio, catalogue: Catalogue, device: str):
        self._studio, self._catalogue, self._device = studio, catalogue, device
        self.is_ready = threading.Event()
        self.failure: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"enlcn-{device}", daemon=True)

    def start(self) -> None:
        """Load the default model, then take jobs."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Wait for the thread's end; False where it still runs."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        config = self._studio.config
        toolbox = Toolbox(self._device, config.memory_limit)
        try:
            default = self._catalogue.default
            toolbox.engine(default.checkpoint(default.largest_scale), config.precision, False)
        except Exception as error:  # jobs will say it too; /readyz says it at once
            self.failure = str(error).splitlines()[0] if str(error) else type(error).__name__
            log.error("%s: the default model cannot be loaded (%s)", self._device, self.failure)
        else:
            self.is_ready.set()
        while (job := self._studio.next_job(freed_memory.give_back)) is not None:
            self._studio.run(job, toolbox)
            del job  # its picture must not live until the next one comes
