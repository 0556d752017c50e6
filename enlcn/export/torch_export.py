"""`enlcn export MODEL out.pt2`: a torch.export program for any batch, height and width, checked before it appears."""

import io
import os
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from enlcn.errors import UserError
from enlcn.export.graph import (
    AXES,
    CHECKED_SIZES,
    EXAMPLE_SIZE,
    SMALL_SIZES,
    Exported,
    Progress,
    describe,
    traceable,
    verify,
)
from enlcn.export.onnx import counter, quiet
from enlcn.files import atomic_write, check_writable, patient_file
from enlcn.models.backbone import SRNetwork

SUFFIX = ".pt2"


def export_pt2(
    network: SRNetwork,
    path: str | os.PathLike[str],
    *,
    name: str = "",
    precision: str = "fp32",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write a network as a program of `torch.export`, lr (B, 3, H, W) -> sr (B, 3, sH, sW), float32 both.

    `torch.export.load(path).module()` runs it without this package; its metadata are extra files, such as "config".

    Args:
        network: any but those with hashed attention.
        path: must end in .pt2.
        name: what the file calls the model.
        precision: "fp32" or "fp16", of weights and convolutions.
        overwrite: replace an existing file.
        progress: called with (steps done, steps in all).

    Raises:
        UserError: among others where the result is too far from the network's own; no file is left then.
    """
    path = Path(path)
    if path.suffix.lower() != SUFFIX:
        raise UserError(f"{path}: exported programs end in {SUFFIX}; choose such a name")
    check_writable(path, overwrite=overwrite)
    step = counter(progress, 2 + len(CHECKED_SIZES))
    dimensions = {axis: torch.export.Dim(label, min=1) for axis, label in AXES.items()}
    metadata = describe(network, name=name or path.stem, precision=precision)
    with quiet(), torch.no_grad():
        program = torch.export.export(
            traceable(network, precision), (torch.rand(EXAMPLE_SIZE),), dynamic_shapes=(dimensions,)
        )
        step()
        with atomic_write(path, overwrite=overwrite) as temporary:
            with patient_file(temporary) as file:
                torch.export.save(program, cast(io.BytesIO, file), extra_files=dict(metadata))
            step()
            module = torch.export.load(temporary).module()

            def run(lr: Tensor) -> Tensor:
                result: Tensor = module(lr)
                return result

            sizes = CHECKED_SIZES if precision == "fp32" else SMALL_SIZES
            difference = verify(network, run, precision, step, sizes=sizes)
    return Exported(difference, metadata)
