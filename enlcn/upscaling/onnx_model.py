"""ONNX files that `enlcn export` wrote: what they say of themselves, and a session of onnxruntime to run them.

Axes: B batch, H rows, W columns, s scale.
"""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from enlcn.config import ModelConfig
from enlcn.errors import MissingExtraError, UserError
from enlcn.file_metadata import is_ours, read_config

SUFFIX = ".onnx"
INPUT, OUTPUT = "lr", "sr"
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


@dataclass(frozen=True)
class OnnxModel:
    """An opened file.

    Attributes:
        config: the network that it computes.
        precision: fp32 or fp16, what its convolutions run in; pixels go in and out as float32.
        device: "cpu" or "cuda".
        metadata: everything the file says of itself.
        session: onnxruntime's.
    """

    config: ModelConfig
    precision: str
    device: str
    metadata: dict[str, str]
    session: Any

    def __call__(self, lr: np.ndarray) -> np.ndarray:
        """lr (B, 3, H, W) in [0, 1] -> sr (B, 3, sH, sW), not clamped, float32 both."""
        result: np.ndarray = self.session.run([OUTPUT], {INPUT: lr})[0]
        return result


def is_onnx(name: str) -> bool:
    """Whether a model is given as an ONNX file."""
    return Path(name).suffix.lower() == SUFFIX


def open_onnx(path: str | os.PathLike[str], *, device: str = "auto", threads: int | None = None) -> OnnxModel:
    """Open a file for running; opened ones are kept.

    Args:
        path: what `enlcn export` wrote.
        device: "auto" (CUDA where onnxruntime has it), "cpu" or "cuda".
        threads: CPU threads; None takes as many as torch uses.
    """
    path = Path(path)
    try:
        status = path.stat()
    except OSError:
        raise UserError(f"{path}: no such file; `enlcn export MODEL {path}` writes one") from None
    stamp = (status.st_mtime_ns, status.st_size)
    return _open(path, stamp, _resolve_device(device), threads or torch.get_num_threads())


def onnx_scale(path: str | os.PathLike[str]) -> int:
    """The scale that an ONNX file of ours is made for."""
    return open_onnx(path, device="cpu").config.scale


@lru_cache(maxsize=2)
def _open(path: Path, stamp: tuple[int, int], device: str, threads: int) -> OnnxModel:
    runtime = _import_onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Threads that wait by spinning would take the cores from reading and writing pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = runtime.InferenceSession(str(path), options, providers=[provider_of(device)])
    except Exception as error:  # onnxruntime raises classes of its own, one per status code
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{path}: cannot be opened as an ONNX model ({told})") from None
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    try:
        if not is_ours(metadata):
            raise UserError("not written by `enlcn export`: it does not say its scale and network")
        config = read_config(metadata)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return OnnxModel(config, metadata.get("precision", "fp32"), device, metadata, session)


def _resolve_device(name: str) -> str:
    available = _import_onnxruntime().get_available_providers()
    kind = name.partition(":")[0]
    if kind == "auto":
        return "cuda" if _PROVIDERS["cuda"] in available else "cpu"
    if kind not in _PROVIDERS:
        raise UserError(f"device '{name}' cannot run ONNX files here; choose from auto, {', '.join(_PROVIDERS)}")
    if _PROVIDERS[kind] not in available:
        raise UserError(f"device '{name}' cannot be used by this onnxruntime; pip install onnxruntime-gpu, or cpu")
    return name


def provider_of(device: str) -> tuple[str, dict[str, str]]:
    """onnxruntime's name for a device such as "cpu" or "cuda:1", and its options."""
    kind, _, number = device.partition(":")
    return _PROVIDERS[kind], {"device_id": number} if number else {}


def _import_onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("running ONNX files", "export") from None
    return onnxruntime
