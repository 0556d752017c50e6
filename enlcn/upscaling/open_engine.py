"""From a model's name to the engine that runs it: PyTorch for weights, onnxruntime for ONNX files."""

from enlcn.checkpoint import load
from enlcn.errors import UserError
from enlcn.upscaling.engine import Engine, EngineOptions
from enlcn.upscaling.onnx_model import is_onnx, open_onnx


def open_engine(name: str, options: EngineOptions) -> Engine:
    """The engine for a model.

    Args:
        name: what `enlcn.load` takes, or an ONNX file of `enlcn export`.
        options: `options.engine` is "torch", "onnxruntime" or "auto", which goes by the file.
    """
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
