"""`enlcn export MODEL out.onnx`: any batch, height and width, checked against PyTorch before the file appears."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from enlcn.errors import MissingExtraError, UserError
from enlcn.export.graph import AXES, CHECKED_SIZES, EXAMPLE_SIZE, Exported, Progress, describe, traceable, verify
from enlcn.files import atomic_write, check_writable
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.onnx_model import INPUT, OUTPUT, SUFFIX, open_onnx

OPSETS = range(18, 24)
DEFAULT_OPSET = 18  # the oldest that the exporter writes: what most programs read


def export_onnx(
    network: SRNetwork,
    path: str | os.PathLike[str],
    *,
    name: str = "",
    precision: str = "fp32",
    opset: int = DEFAULT_OPSET,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write a network as ONNX: input "lr" (B, 3, H, W), output "sr" (B, 3, sH, sW), float32 both.

    Args:
        network: any but those with hashed attention.
        path: must end in .onnx.
        name: what the file calls the model.
        precision: "fp32" or "fp16", of weights and convolutions.
        opset: of ONNX, 18 to 23.
        overwrite: replace an existing file.
        progress: called with (steps done, steps in all).

    Raises:
        UserError: among others where onnxruntime's result is too far from PyTorch's; no file is left then.
    """
    path = Path(path)
    if path.suffix.lower() != SUFFIX:
        raise UserError(f"{path}: ONNX files end in {SUFFIX}; choose such a name")
    if opset not in OPSETS:
        raise UserError(f"--opset is {opset}; choose from {OPSETS.start} to {OPSETS.stop - 1}")
    check_writable(path, overwrite=overwrite)
    require_packages()
    step = counter(progress, 2 + len(CHECKED_SIZES))
    program = _program(traceable(network, precision), opset)
    step()
    metadata = describe(network, name=name or path.stem, precision=precision)
    program.model.metadata_props.update(metadata)
    program.model.producer_name, program.model.producer_version = "enlcn", metadata["enlcn_version"]
    with atomic_write(path, overwrite=overwrite) as temporary:
        program.save(temporary)
        step()
        exported = open_onnx(temporary, device="cpu")
        difference = verify(network, lambda lr: torch.from_numpy(exported(lr.numpy())), precision, step)
    return Exported(difference, metadata)


def _program(network: torch.nn.Module, opset: int) -> Any:
    with quiet(), torch.no_grad():
        try:
            return torch.onnx.export(
                network,
                (torch.rand(EXAMPLE_SIZE),),
                dynamo=True,
                input_names=[INPUT],
                output_names=[OUTPUT],
                dynamic_shapes=(AXES,),
                opset_version=opset,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            told = (str(error.__cause__ or error).splitlines() or [""])[0]
            raise UserError(f"PyTorch cannot write this network as ONNX ({told})") from None


def counter(progress: Progress | None, total: int) -> Callable[[], None]:
    """A function that reports one step more at each call."""
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return step


@contextmanager
def quiet() -> Iterator[None]:
    """The exporter tells of packages it would like and of its own deprecations; neither is for users of this one."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def require_packages() -> None:
    """An error where what writes and checks ONNX files is not installed."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise MissingExtraError("writing ONNX files", "export") from None
