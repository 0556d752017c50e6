"""Real progress and a way to stop: from what the engine counts, and from the modules of a network as they run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from enlcn.serve.jobs import Watch
from enlcn.upscaling import memory
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.steps import following_modules
from enlcn.upscaling.streaming import Progress


@contextmanager
def following(
    engine: Engine, height: int, width: int, watch: Watch, share: Callable[[float], float]
) -> Iterator[Progress]:
    """Follow the engine over an image; yields the callback it is to be given.

    Every module that finishes is an occasion to stop; how far the work is, the engine counts itself.

    Args:
        engine: what runs; its network carries hooks meanwhile.
        height, width: LR size.
        watch: is told and asked.
        share: from the fraction of this work to that of the whole job.
    """
    streams = _will_stream(engine, height, width)
    module: str | None = None

    def module_done(name: str) -> None:
        nonlocal module
        watch.check()
        module = name  # the engine counts it right after this

    def progress(done: int, total: int) -> None:
        nonlocal module
        step = f"tile {done} of {total}" if streams else module or "reconstructing"
        module = None
        watch.report(share(done / total), step)

    with following_modules(engine.network, module_done):
        yield progress


def _will_stream(engine: Engine, height: int, width: int) -> bool:
    fits = memory.whole_image_bytes(engine.network.config, height, width) <= engine.limit
    return not fits and engine.why_not_streamable() is None
