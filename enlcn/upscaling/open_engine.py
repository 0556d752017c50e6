"""From a model's name to the engine that runs it: PyTorch for weights, onnxruntime for ONNX files."""

import logging
import time

from enlcn.checkpoint import UNTRAINED_PREFIX, load
from enlcn.errors import UserError
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.onnx_model import is_onnx, open_onnx
from enlcn.zoo import locate

log = logging.getLogger(__name__)


def open_engine(name: str, options: EngineOptions) -> Engine:
    """The engine for a model.

    Args:
        name: what `enlcn.load` takes, or an ONNX file of `enlcn export`.
        options: `options.engine` is "torch", "onnxruntime" or "auto", which goes by the file.
    """
    start = time.perf_counter()
    engine = _open(name, options)
    if log.isEnabledFor(logging.DEBUG):
        seconds = time.perf_counter() - start
        file = name if name.startswith(UNTRAINED_PREFIX) else locate(name)
        limit = engine.limit / 2**30
        told = (name, file, seconds, engine.device, engine.precision, limit)
        log.debug("model %s: %s, opened in %.2f s, on %s in %s, memory limit %.1f GiB", *told)
    return engine


def _open(name: str, options: EngineOptions) -> Engine:
    wanted = options.engine
    if is_onnx(name):
        if wanted == "torch":
            raise UserError(f"{name}: PyTorch cannot run ONNX files; leave --engine to auto, or give the weights")
        return _onnx_engine(name, options)
    if wanted == "onnxruntime":
        from enlcn.export.cache import cached_onnx

        return _onnx_engine(str(cached_onnx(name, precision=options.precision)), options)
    return Engine(load(name), options)


def _onnx_engine(path: str, options: EngineOptions) -> Engine:
    from enlcn.upscaling.onnx_engine import OnnxEngine

    return OnnxEngine(open_onnx(path, device=options.device), options)
