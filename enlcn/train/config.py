"""What a training run is: frozen dataclasses, each field with the paper's symbol. No torch here.

An epoch is 1000 batches whatever the size of the set, as in the code this network descends from (EDSR, NLSN).
Everything is counted in steps: 200 epochs are 200,000 steps.
"""

from dataclasses import dataclass, field

from enlcn.config import ModelConfig
from enlcn.data.batch import BatchConfig
from enlcn.errors import require, require_choice

STEPS_PER_EPOCH = 1000
SCHEDULES = ("constant", "halving", "cosine")
CLOCKS = ("auto", "steps", "budget")
PRECISIONS = ("auto", "fp32", "tf32", "bf16")
SWITCHES = ("auto", "on", "off")
PLACEMENTS = ("auto", "device", "host")
PIXEL_LOSSES = ("l1", "l2")
OPTIMIZERS = ("adam", "muon")
_RELEASED_POSITIONS = 65


@dataclass(frozen=True)
class DataConfig(BatchConfig):
    """What a batch is, and where it comes from.

    Attributes:
        placement: where the decoded set lives: device, host, or auto (the device where it fits).
    """

    placement: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_choice("data.placement", self.placement, PLACEMENTS)


@dataclass(frozen=True)
class LossConfig:
    """L_rec + lambda_cl L_cl.

    Attributes:
        pixel: L_rec, the mean of |sr - hr| (l1, the paper's) or of its square (l2, which PSNR is a function of).
        contrastive_weight: lambda_cl, what L_cl is multiplied by.
        contrastive_start: the step from which L_cl is on.
        relevant_fraction: n1, the share of positions taken as relevant, and as irrelevant.
        irrelevant_start: n2, the rank, as a share, at which the irrelevant ones start.
        margin: b, added to each query's term.
        hinge: clip each query's term at 0, as the authors' code does.
        released_ranks: the fixed ranks of the authors' code instead of shares of N.
        num_rows: queries per attention that L_cl looks at, drawn anew each step; None for all.
    """

    pixel: str = "l1"
    contrastive_weight: float = 1e-3
    contrastive_start: int = 150 * STEPS_PER_EPOCH
    relevant_fraction: float = 0.02
    irrelevant_start: float = 0.08
    margin: float = 1.0
    hinge: bool = True
    released_ranks: bool = False
    num_rows: int | None = None

    def __post_init__(self) -> None:
        require_choice("loss.pixel", self.pixel, PIXEL_LOSSES)
        require(self.contrastive_weight >= 0, "loss.contrastive_weight must not be negative")
        require(self.num_rows is None or self.num_rows >= 1, "loss.num_rows must be at least 1")
        require(0 < self.relevant_fraction <= 1, "loss.relevant_fraction must lie in (0, 1]")
        require(0 <= self.irrelevant_start <= 1, "loss.irrelevant_start must lie in [0, 1]")


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate over a run.

    Attributes:
        kind: constant, halving, or cosine from learning_rate to final_fraction of it at the end.
        learning_rate: at its highest.
        halve_every: steps between halvings.
        warmup_steps: steps of linear rise from 0, always counted in steps.
        final_fraction: of learning_rate, where a cosine ends.
        clock: what moves the schedule on and ends the run: steps, or budget (elapsed / budget of total_steps, however
            many steps that takes); auto takes the budget where one is given. L_cl's start follows the same clock.
    """

    kind: str = "halving"
    learning_rate: float = 1e-4
    halve_every: int = 200 * STEPS_PER_EPOCH
    warmup_steps: int = 0
    final_fraction: float = 0.0
    clock: str = "auto"

    def __post_init__(self) -> None:
        require_choice("schedule.kind", self.kind, SCHEDULES)
        require_choice("schedule.clock", self.clock, CLOCKS)
        require(self.learning_rate > 0, "schedule.learning_rate must be positive")
        require(self.halve_every >= 1, "schedule.halve_every must be at least 1")
        require(self.warmup_steps >= 0, "schedule.warmup_steps must not be negative")
        require(0 <= self.final_fraction <= 1, "schedule.final_fraction must lie in [0, 1]")


@dataclass(frozen=True)
class OptimizerConfig:
    """What makes steps of gradients; clipping, averaging.

    Attributes:
        kind: adam (the paper's) for all weights, or muon for the matrices inside the network and adam for the rest.
        beta1, beta2, eps: Adam's.
        momentum: Muon's.
        inner_factor: Muon's steps are so many times as long as Adam's at the same learning rate.
        residual_factor: Adam's steps in residual branches are so many times as long as elsewhere: res_scale multiplies
            what they do.
        clip_norm: longest gradient; None for no limit.
        ema_decay: of the weights' moving average, which is validated and exported; None for the weights themselves.
        max_bad_steps: stop after so many steps in a row whose loss or gradient is not finite; each is skipped.
    """

    kind: str = "adam"
    beta1: float = 0.9
    beta2: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.95
    inner_factor: float = 1.0
    residual_factor: float = 1.0
    clip_norm: float | None = None
    ema_decay: float | None = None
    max_bad_steps: int = 20

    def __post_init__(self) -> None:
        require_choice("optimizer.kind", self.kind, OPTIMIZERS)
        for name in ("beta1", "beta2", "momentum"):
            require(0 <= getattr(self, name) < 1, f"optimizer.{name} must lie in [0, 1)")
        require(self.eps > 0, "optimizer.eps must be positive")
        for name in ("inner_factor", "residual_factor"):
            require(getattr(self, name) > 0, f"optimizer.{name} must be positive")
        require(
            self.residual_factor == 1 or self.kind == "adam",
            "optimizer.residual_factor is for optimizer.kind=adam; Muon's steps have optimizer.inner_factor",
        )
        require(self.clip_norm is None or self.clip_norm > 0, "optimizer.clip_norm must be positive")
        require(self.ema_decay is None or 0 < self.ema_decay < 1, "optimizer.ema_decay must lie in (0, 1)")
        require(self.max_bad_steps >= 1, "optimizer.max_bad_steps must be at least 1")


@dataclass(frozen=True)
class EngineConfig:
    """How a step is computed; none of it changes what is computed beyond rounding.

    Attributes:
        precision: bf16 (autocast; attention features and losses stay float32, their products tf32), tf32, fp32, or
            auto: bf16 on CUDA, else fp32.
        channels_last: memory order of activations and weights.
        compile: torch.compile of network and batch; auto is on for CUDA.
        cuda_graph: the whole step as one graph; auto is on for CUDA in a single process.
    """

    precision: str = "auto"
    channels_last: bool = True
    compile: str = "auto"
    cuda_graph: str = "auto"

    def __post_init__(self) -> None:
        require_choice("engine.precision", self.precision, PRECISIONS)
        require_choice("engine.compile", self.compile, SWITCHES)
        require_choice("engine.cuda_graph", self.cuda_graph, SWITCHES)


@dataclass(frozen=True)
class CadenceConfig:
    """How often something happens.

    Attributes:
        log: steps between lines of metrics; also how often a run of bad steps is noticed.
        validate: steps between measurements of PSNR on the held-out images; 0 is never.
        checkpoint: steps after which checkpoints/last is replaced; 0 is never.
        checkpoint_seconds: it is replaced, too, where the last time is longer ago than this; 0 is never.
        keep: steps between checkpoints that stay, as checkpoints/step-N; 0 is never.
        redraw: steps after which F is drawn anew (the paper: every epoch); 0 is never.
        redraw_until: F is drawn anew in this share of the run, by the schedule's clock, and then stays as it is.
        validation_images: at most so many of the held-out images; None for all.
        validation_crop: side of the LR centre that is validated; None for whole images.
    """

    log: int = 100
    validate: int = STEPS_PER_EPOCH
    checkpoint: int = STEPS_PER_EPOCH
    checkpoint_seconds: float = 60.0
    keep: int = 0
    redraw: int = STEPS_PER_EPOCH
    redraw_until: float = 1.0
    validation_images: int | None = None
    validation_crop: int | None = None

    def __post_init__(self) -> None:
        require(self.log >= 1, "cadence.log must be at least 1")
        for name in ("validate", "checkpoint", "checkpoint_seconds", "keep", "redraw"):
            require(getattr(self, name) >= 0, f"cadence.{name} must not be negative")
        require(0 <= self.redraw_until <= 1, "cadence.redraw_until must lie in [0, 1]")
        for name in ("validation_images", "validation_crop"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"cadence.{name} must be at least 1")


@dataclass(frozen=True)
class TrainConfig:
    """A whole run.

    Attributes:
        model: the network.
        data, loss, schedule, optimizer, engine, cadence: see there.
        total_steps: where it ends, and the length of the schedule; see also `schedule.clock`.
        seed: of initial weights, batches, rows of L_cl and F.
    """

    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    engine: EngineConfig = field(default_factory=EngineConfig)
    cadence: CadenceConfig = field(default_factory=CadenceConfig)
    total_steps: int = 1000 * STEPS_PER_EPOCH
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.total_steps >= 1, "total_steps must be at least 1")
        require(0 <= self.seed < 2**63, f"seed is {self.seed}; it must lie in 0 to 2^63 - 1")
        require(
            not self.loss.released_ranks or self.data.crop**2 >= _RELEASED_POSITIONS,
            f"loss.released_ranks needs at least {_RELEASED_POSITIONS} positions; data.crop is {self.data.crop}",
        )
