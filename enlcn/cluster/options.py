"""What a cluster run is asked to do."""

import math
from dataclasses import dataclass, field

from enlcn.errors import UserError
from enlcn.upscaling.background import Colour
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.target import Target


@dataclass(frozen=True)
class ClusterOptions:
    """Where to run, and what is done to every picture.

    Attributes:
        target: the size wanted.
        model: what `enlcn.load` takes; what does not come with the package is read here and sent to the workers.
        engine: precision, memory and the like; its device is "auto" for the GPU a worker was given, or else the CPU.
        quality, lossless: of lossy formats.
        max_pixels: refuse larger inputs.
        background: what transparent pictures are put on; None keeps their alpha.
        overwrite: replace results, and do again what a manifest says is done.
        address: of a Ray cluster, such as ray://head:10001 or auto; None for one on this machine.
        workers: how many processes hold the network; None takes as many as the cluster has room for.
        cpus_per_worker: cores of each.
        gpus_per_worker: GPUs of each, parts allowed; None takes one where the cluster has any.
        chunk: pictures handed to a worker at a time; None goes by their number.
        retries: how often reading and writing are tried again, and pictures whose worker died.
        object_store: bytes for Ray's object store where it is started here; names and rows alone lie there.
        runtime_env: Ray's runtime environment for the workers.
    """

    target: Target
    model: str | None = None
    engine: EngineOptions = field(default_factory=EngineOptions)
    quality: int | None = None
    lossless: bool = False
    max_pixels: int | None = None
    background: Colour | None = None
    overwrite: bool = False
    address: str | None = None
    workers: int | None = None
    cpus_per_worker: float = 1.0
    gpus_per_worker: float | None = None
    chunk: int | None = None
    retries: int = 3
    object_store: int = 200 * 2**20
    runtime_env: dict[str, object] | None = None

    def __post_init__(self) -> None:
        for name, value, least in (
            ("--workers", self.workers, 1),
            ("--chunk", self.chunk, 1),
            ("--retries", self.retries, 0),
            ("--gpus-per-worker", self.gpus_per_worker, 0),
        ):
            if value is not None and not least <= value < math.inf:
                raise UserError(f"{name} is {value}; it must be at least {least}")
        if not 0 < self.cpus_per_worker < math.inf:
            raise UserError(f"--cpus-per-worker is {self.cpus_per_worker}; it must be more than 0")
