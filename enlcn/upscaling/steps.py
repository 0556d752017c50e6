"""How far a whole-image run is: the attentions and blocks of a network as they finish, then strips of its upsampler."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn

from enlcn.models.attention import Attention
from enlcn.models.backbone import SRNetwork, Stage

_UPSAMPLER_SHARE = 0.15  # of the time of a whole-image run, about; the body takes the rest


@contextmanager
def following_modules(network: SRNetwork, told: Callable[[str], None]) -> Iterator[None]:
    """Meanwhile, call `told` with the name of each module that finishes, such as "block 3 of 16".

    Modules that another thread runs are not told of: networks are shared between pictures.
    """
    thread = threading.get_ident()

    def hook(name: str) -> Callable[..., None]:
        return lambda module, inputs, output: told(name) if threading.get_ident() == thread else None

    handles = [module.register_forward_hook(hook(name)) for name, module in named_modules(network)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def named_modules(network: SRNetwork) -> Iterator[tuple[str, nn.Module]]:
    """The modules of the body that take time, in the order in which they run."""
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


class WholeSteps:
    """Counts one pass over a whole image: a step per module, then the upsampler's strips as their share of the time.

    Args:
        num_modules: of the body; 0 where they cannot be followed, and strips are all that counts.
        num_strips: of the upsampler.
        progress: called with (steps done, steps in all).
    """

    def __init__(self, num_modules: int, num_strips: int, progress: Callable[[int, int], None]):
        self._modules, self._strips = num_modules, num_strips
        share = round(num_modules * _UPSAMPLER_SHARE / (1 - _UPSAMPLER_SHARE))
        self._steps_of_strips = max(1, share) if num_modules else num_strips
        self._progress = progress
        self._modules_done = 0

    def begin(self) -> None:
        """Nothing is done yet."""
        self._tell(0)

    def module_done(self, name: str) -> None:
        """A module of the body has finished."""
        self._modules_done = min(self._modules_done + 1, self._modules)
        self._tell(self._modules_done)

    def strips_done(self, count: int) -> None:
        """So many strips have been reconstructed."""
        self._tell(self._modules + self._steps_of_strips * count // self._strips)

    def _tell(self, done: int) -> None:
        self._progress(done, self._modules + self._steps_of_strips)
