"""One training step: draw a batch, forward, loss, backward, clip, optimizer, average. It never waits for the device.

A step whose loss or gradient is not finite changes no weight: the optimizer is told on the device, nobody waits for it.
"""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from enlcn.data.counter_random import derive_seed
from enlcn.data.patches import PatchSource
from enlcn.models.backbone import SRNetwork
from enlcn.ops.kernel_support import has_bf16
from enlcn.train.averaging import WeightAverage
from enlcn.train.config import EngineConfig, TrainConfig
from enlcn.train.distributed import Ranks
from enlcn.train.objective import Objective
from enlcn.train.optimizers import Optimizers
from enlcn.train.rounded import RoundedNetwork
from enlcn.train.step_graph import Pace, StepGraph

log = logging.getLogger(__name__)
_ROW_STREAM, _F_STREAM = 1, 2


@dataclass(frozen=True)
class Readings:
    """What the steps since the last reading gave, averaged over all processes.

    Attributes:
        loss, contrastive: means over the finite ones among them.
        skipped: steps without effect since the run began.
        longest_bad_run: the most of them in a row, since the last reading.
        last_bad_step: the latest of them, -1 for none.
    """

    loss: float
    contrastive: float
    skipped: int
    longest_bad_run: int
    last_bad_step: int


class TrainStep:
    """The state that training changes, and the step that changes it.

    Args:
        network: on its device already; trained in place.
        config: the run.
        patches: where batches come from.
        ranks: this process among the others.
    """

    def __init__(self, network: SRNetwork, config: TrainConfig, patches: PatchSource, ranks: Ranks):
        device = ranks.device
        self.config, self.ranks, self.patches = config, ranks, patches
        self.device = device
        if config.engine.channels_last:
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network = network.train()
        self.parameters = list(network.parameters())
        self.learning_rate = torch.tensor(config.schedule.learning_rate, device=device)
        self._found_bad = torch.zeros((), device=device)
        self.optimizers = Optimizers(network, config.optimizer, self.learning_rate, self._found_bad)
        decay = config.optimizer.ema_decay
        self.average = WeightAverage(self.parameters, decay) if decay is not None else None

        # Several processes average the gradients of the trained weights themselves.
        in_16_bits = precision_of(config.engine, device) == "bf16"
        self._rounded = RoundedNetwork(self.network) if in_16_bits and ranks.is_alone else None
        computing = self._rounded.network if self._rounded is not None else self.network
        self.objective = Objective(computing, config.loss, derive_seed(config.seed, _ROW_STREAM))
        self.draw: Callable[[Tensor], tuple[Tensor, Tensor]] = patches.draw
        self._is_compiled = is_on(config.engine.compile, device.type == "cuda")
        if self._is_compiled:
            self.objective.compile_network()
            self.draw = torch.compile(patches.draw, dynamic=False)
        self._forward: nn.Module = ranks.wrap(self.objective)
        self._use_graph = device.type == "cuda" and is_on(config.engine.cuda_graph, ranks.is_alone)
        self._graph: tuple[bool, StepGraph] | None = None
        self._pace = Pace(device)

        self.step = 0  # steps done
        self._device_step = torch.zeros((), dtype=torch.int64, device=device)
        self._sums = torch.zeros(3, device=device)  # loss, L_cl, how many
        self._bad = torch.zeros(4, dtype=torch.int64, device=device)  # all, in a row, longest row, latest step
        self._bad[3] = -1

    def advance(self, learning_rate: float, with_contrast: bool, may_redraw: bool = True) -> None:
        """Do the next step, with a new F where one is due and allowed. Returns before the device has done it."""
        redraw = self.config.cadence.redraw
        if may_redraw and redraw and self.step % redraw == 0:
            self.redraw_projections(self.step // redraw)
        self.learning_rate.fill_(learning_rate)
        self.patches.prepare(self.step)
        self._run(with_contrast)
        self.step += 1
        self._pace.mark_step()

    def redraw_projections(self, epoch: int) -> None:
        """Draw every F anew: a function of the seed and the epoch, hence the same on every process."""
        generator = torch.Generator().manual_seed(derive_seed(self.config.seed, _F_STREAM, epoch))
        self.network.redraw(generator)

    def read(self) -> Readings:
        """Wait for the device and take the readings since the last call."""
        sums = self.ranks.average(self._sums.clone()).tolist()
        skipped, _, longest, latest = self._bad.tolist()
        self._sums.zero_()
        self._bad[2] = self._bad[1]
        count = sums[2] or float("nan")
        return Readings(sums[0] / count, sums[1] / count, skipped, longest, latest)

    def read_skipped(self) -> int:
        """How many steps have had no effect since the run began."""
        return int(self._bad[0])

    def skip_to(self, step: int, skipped: int) -> None:
        """Stand where a checkpoint was taken, after `step` steps of which `skipped` had no effect."""
        self.step = step
        self._device_step.fill_(step)
        self._bad[0] = skipped

    def _run(self, with_contrast: bool) -> None:
        if not self._use_graph:
            self._body(with_contrast)
            return
        if self._graph is None or self._graph[0] != with_contrast:
            # L_cl is switched on once in a run: the graph without it is dropped with all its memory.
            self._graph = (with_contrast, StepGraph(lambda: self._body(with_contrast), self.device))
        self._graph[1]()

    def _body(self, with_contrast: bool) -> None:
        loss, contrastive = self._differentiate(with_contrast)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = get_total_norm(gradients)
        bad = self.ranks.largest((~(norm.isfinite() & loss.isfinite())).float())
        self._found_bad.copy_(bad)
        if self.config.optimizer.clip_norm is not None:
            clip_grads_with_norm_(self.parameters, self.config.optimizer.clip_norm, norm)
        self.optimizers.step()
        if self.average is not None:
            self.average.update()
        self._count(loss.detach(), contrastive.detach(), bad > 0)

    def _differentiate(self, with_contrast: bool) -> tuple[Tensor, Tensor]:
        """Both losses, and all gradients; where the compiler fails, eagerly, and so from then on."""
        if not self._is_compiled:
            return self._forward_and_backward(with_contrast)
        try:
            return self._forward_and_backward(with_contrast)
        except _compiler_errors() as error:
            log.warning("torch.compile failed, going on without it: %s", str(error).strip().splitlines()[0])
            self._is_compiled = False
            self.objective.run_eagerly()
            self.draw = self.patches.draw
            return self._forward_and_backward(with_contrast)

    def _forward_and_backward(self, with_contrast: bool) -> tuple[Tensor, Tensor]:
        if self._rounded is not None:
            self._rounded.round()
        loss, contrastive = self._forward_batch(with_contrast)
        self.optimizers.zero_grad()
        loss.backward()
        if self._rounded is not None:
            self._rounded.collect_gradients()
        return loss, contrastive

    def _forward_batch(self, with_contrast: bool) -> tuple[Tensor, Tensor]:
        lr, hr = self.draw(self._device_step)
        if not self.config.engine.channels_last:
            lr, hr = lr.contiguous(), hr.contiguous()
        with autocast(self.config.engine, self.device):
            loss, contrastive = self._forward(lr, hr, self._device_step, with_contrast)
        return loss, contrastive

    def _count(self, loss: Tensor, contrastive: Tensor, bad: Tensor) -> None:
        values = torch.stack([loss, contrastive, torch.ones_like(loss)])
        self._sums += torch.where(bad, 0.0, values)
        total, row, longest, latest = self._bad.unbind()
        row = torch.where(bad, row + 1, 0)
        self._bad.copy_(
            torch.stack(
                [total + bad, row, torch.maximum(longest, row), torch.where(bad, self._device_step, latest)],
            )
        )
        self._device_step += 1


def _compiler_errors() -> tuple[type[Exception], ...]:
    """What torch.compile raises; its modules are PyTorch's own affair, and may be elsewhere in a later release."""
    try:
        from torch._dynamo.exc import TorchDynamoException
        from torch._inductor.exc import InductorError
    except ImportError:
        return (RuntimeError,)
    return (TorchDynamoException, InductorError)


def is_on(switch: str, by_default: bool) -> bool:
    """What "on", "off" or "auto" means here."""
    return by_default if switch == "auto" else switch == "on"


def precision_of(engine: EngineConfig, device: torch.device) -> str:
    """fp32, tf32 or bf16: what "auto" means on `device`."""
    if engine.precision != "auto":
        return engine.precision
    return "bf16" if has_bf16(device) else "fp32"


def autocast(engine: EngineConfig, device: torch.device) -> AbstractContextManager[object]:
    """The scope in which the network runs in `engine`'s precision."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision_of(engine, device) == "bf16")


def set_up_backends(engine: EngineConfig, device: torch.device) -> None:
    """Let matrix products round to tf32 where the precision says so, and convolutions be tuned to their sizes."""
    if device.type != "cuda":
        return
    exact = precision_of(engine, device) == "fp32"
    torch.backends.cudnn.allow_tf32 = not exact
    torch.set_float32_matmul_precision("highest" if exact else "high")
    torch.backends.cudnn.benchmark = True
