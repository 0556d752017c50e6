"""The engine for ONNX files: a fixed graph over the whole image, with onnxruntime.

The graph goes from lr to sr in one piece, so it cannot stop between stages as exact streaming must. An image that does
not fit the memory limit is refused with a word on what to do, rather than cut into tiles that change the result.
"""

import logging

import numpy as np
import torch
from torch import Tensor

from enlcn.config import ModelConfig
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling import memory
from enlcn.upscaling.engine import Engine, RunReport
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.onnx_model import OnnxModel
from enlcn.upscaling.streaming import EmitSR, Progress, ReadLR
from enlcn.upscaling.tiling import Tile

log = logging.getLogger(__name__)

_FIXED = 256 * 2**20  # onnxruntime and its packed weights, once warm
_FLOAT = 4
_ADVICE = "take the weights (.safetensors) instead, which are streamed at any size, or raise --memory-limit"


class OnnxEngine(Engine):
    """Upscales images through an ONNX file, with the interface of `Engine`."""

    def __init__(self, model: OnnxModel, options: EngineOptions | None = None):
        self.options = options or EngineOptions()
        if self.options.precision not in ("auto", model.precision):
            wanted = self.options.precision
            other = f", or export it again with --precision {wanted}" if wanted in ("fp32", "fp16") else ""
            raise UserError(f"this ONNX file computes in {model.precision}; leave --precision to auto{other}")
        self.model = model
        self.precision = model.precision
        self.device = torch.device(model.device)
        with torch.device("meta"):  # what callers ask of a network, without its weights
            self.network = SRNetwork(model.config)
        self.host_limit = self.options.limit or memory.default_limit(torch.device("cpu"))
        self.limit = self.host_limit

    def why_not_streamable(self) -> str:
        """A graph from lr to sr has no places to stop at."""
        return f"an ONNX graph takes the whole image at once; {_ADVICE}"

    def _mode(self, height: int, width: int) -> str:
        if self.options.mode == "streaming":
            raise UserError(f"cannot stream: {self.why_not_streamable()}")
        needed = onnx_image_bytes(self.model.config, height, width)
        if self.options.mode == "auto" and needed > self.limit:
            raise UserError(
                f"{width}x{height} needs about {needed / 2**30:.1f} GiB as an ONNX graph, the limit is "
                f"{self.limit / 2**30:.1f} GiB; {_ADVICE}"
            )
        if needed > self.limit:
            log.warning("the whole image may take more than the memory limit")
        return "whole"

    def _run(
        self, report: RunReport, size: tuple[int, int], read_lr: ReadLR, emit_sr: EmitSR, progress: Progress | None
    ) -> int:
        height, width = size
        whole = Tile(0, height, 0, width, height, width)
        lr = np.ascontiguousarray(read_lr(whole).numpy(), np.float32)
        if progress is not None:
            progress(0, 1)
        sr = self._forward(lr)
        if report.precision != "fp32" and not sr.isfinite().all():
            raise UserError(f"{report.precision} gave values that are not finite; export the model in fp32")
        emit_sr(whole, sr)
        if progress is not None:
            progress(1, 1)
        return 0

    def _forward(self, lr: np.ndarray) -> Tensor:
        try:
            return torch.from_numpy(self.model(lr))
        except Exception as error:  # onnxruntime raises classes of its own, one per status code
            told = (str(error).splitlines() or [type(error).__name__])[0]
            advice = f"; {_ADVICE}" if "alloc" in told.lower() else ""
            raise UserError(f"onnxruntime failed ({told}){advice}") from None


def onnx_image_bytes(config: ModelConfig, height: int, width: int) -> int:
    """Peak of an exported graph beyond what the image itself takes; measured with onnxruntime, rounded up."""
    # Queries' and keys' features exist for all positions at once, and EDSR's upsampler has features at twice the size.
    features = config.attention.num_features if config.num_attentions else 0
    body = memory.body_floats(config) + 4 * features
    upsampler = {"stepwise": 16 * config.channels + 400, "direct": 0}[config.upsampler]
    # Exact and criss-cross attention hold what each position gives to all others, or to its row and column.
    weights = {"nla": 2 * height * width, "cca": 3 * (height + width)}.get(config.attention.kind, 0)
    floats = max(body, upsampler) + 2 * 3 * config.scale**2 + (weights if config.num_attentions else 0)
    return _FIXED + height * width * floats * _FLOAT
