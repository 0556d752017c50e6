"""Real progress and a way to stop: from the modules of a network as they run, and from strips and tiles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn

from enlcn.models.attention import Attention
from enlcn.models.backbone import SRNetwork, Stage
from enlcn.serve.jobs import Watch
from enlcn.upscaling import memory
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.streaming import Progress

_BODY = 0.85  # of a whole-image run; the upsampler takes the rest


@contextmanager
def following(
    engine: Engine, height: int, width: int, runs: int, watch: Watch, share: Callable[[float], float]
) -> Iterator[Progress]:
    """Follow `runs` passes of the engine over an image; yields the callback it is to be given.

    Every module that finishes is an occasion to stop, and in whole-image runs a step forward; streamed runs count
    their tiles.

    Args:
        engine: what runs; its network carries hooks meanwhile.
        height, width: LR size.
        runs: passes over the image: 2 with alpha, 8 times as many with self-ensemble.
        watch: is told and asked.
        share: from the fraction of this work to that of the whole job.
    """
    streams = _will_stream(engine, height, width)
    steps = list(_named_modules(engine.network))
    done_runs = done_steps = 0

    def module_done(name: str) -> None:
        nonlocal done_steps
        if streams:
            watch.check()
            return
        done_steps += 1
        watch.report(share((done_runs + _BODY * min(1.0, done_steps / len(steps))) / runs), name)

    def progress(done: int, total: int) -> None:
        nonlocal done_runs, done_steps
        position = done / total
        if streams:
            watch.report(share(position), f"tile {done} of {total}")
            return
        within = position * runs - done_runs
        watch.report(share((done_runs + _BODY + (1 - _BODY) * min(1.0, within)) / runs), "reconstructing")
        if within >= 1 - 1e-9:
            done_runs, done_steps = done_runs + 1, 0

    handles = [module.register_forward_hook(_hook(module_done, name)) for name, module in steps]
    try:
        yield progress
    finally:
        for handle in handles:
            handle.remove()


def _hook(module_done: Callable[[str], None], name: str) -> Callable[..., None]:
    return lambda module, inputs, output: module_done(name)


def _named_modules(network: SRNetwork) -> Iterator[tuple[str, nn.Module]]:
    attentions, blocks = len(network.attentions), network.config.num_blocks
    attention = block = 0
    for stage in network.stages:
        assert isinstance(stage, Stage)
        if isinstance(stage.attention, Attention):
            attention += 1
            yield f"attention {attention} of {attentions}", stage.attention
        for module in stage.blocks:
            block += 1
            yield f"block {block} of {blocks}", module
    yield "body done", network.body_end


def _will_stream(engine: Engine, height: int, width: int) -> bool:
    fits = memory.whole_image_bytes(engine.network.config, height, width) <= engine.limit
    return not fits and engine.why_not_streamable() is None
