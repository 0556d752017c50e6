"""`enlcn export`: a model for other programs, as ONNX, as a torch.export program, or as a folder for the Hub."""

from pathlib import Path
from typing import Annotated

import typer

from enlcn.cli import console
from enlcn.errors import UserError

_PRECISIONS = ("fp32", "fp16")
_SUFFIXES = (".onnx", ".pt2", ".safetensors")


def export(
    model: Annotated[
        str, typer.Argument(help="A model's name, a checkpoint, a training run, an address, or untrained:NAME.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            help="Where to write. The ending says what: .onnx; .pt2 (torch.export); .safetensors that spandrel, "
            "ComfyUI and chaiNNer understand; none for a folder as the Hugging Face Hub wants it."
        ),
    ],
    precision: Annotated[
        str, typer.Option(help="fp32 or fp16, of weights and convolutions; pixels stay float32.")
    ] = "fp32",
    opset: Annotated[int | None, typer.Option(help="Version of ONNX's operators, 18 to 23. Default: 18.")] = None,
    name: Annotated[str | None, typer.Option(help="What the file calls the model. Default: MODEL's own name.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file or folder.")] = False,
) -> None:
    """Write a model for other programs. ONNX and torch.export take any batch, height and width, and are compared with
    PyTorch at three sizes before the file appears."""
    if precision not in _PRECISIONS:
        raise UserError(f"--precision is '{precision}'; choose from {', '.join(_PRECISIONS)}")
    suffix = target.suffix.lower()
    if suffix not in ("", *_SUFFIXES) and not target.is_dir():
        raise UserError(f"{target}: ends in '{suffix}'; choose {', '.join(_SUFFIXES)}, or no ending for a Hub folder")
    if opset is not None and suffix != ".onnx":
        raise UserError("--opset belongs to .onnx files")
    from enlcn.zoo import fetch_remote

    name = name or _short_name(model)
    fetch_remote([model])
    if suffix in (".onnx", ".pt2"):
        _export_graph(model, target, name, precision, opset, overwrite)
    elif suffix == ".safetensors":
        _export_for_spandrel(model, target, precision, overwrite)
    else:
        _export_for_hub(model, target, name, precision, overwrite)


def _export_graph(model: str, target: Path, name: str, precision: str, opset: int | None, overwrite: bool) -> None:
    from enlcn.checkpoint import load
    from enlcn.export.onnx import DEFAULT_OPSET, export_onnx
    from enlcn.export.torch_export import export_pt2
    from enlcn.files import check_writable

    check_writable(target, overwrite=overwrite)
    network = load(model)
    with console.progress_bar() as bar:
        task = bar.add_task(f"writing {console.escape(target.name)}", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        if target.suffix.lower() == ".onnx":
            made = export_onnx(
                network,
                target,
                name=name,
                precision=precision,
                opset=DEFAULT_OPSET if opset is None else opset,
                overwrite=overwrite,
                progress=progress,
            )
        else:
            made = export_pt2(network, target, name=name, precision=precision, overwrite=overwrite, progress=progress)
    console.say(
        f"{target}: {name}, x{network.config.scale}, {precision}, {target.stat().st_size / 2**20:.1f} MiB; "
        f"differs from PyTorch by at most {made.difference:.1g} over three sizes"
    )


def _export_for_spandrel(model: str, target: Path, precision: str, overwrite: bool) -> None:
    from enlcn.checkpoint import load
    from enlcn.export.spandrel import save

    save(load(model), target, half=precision == "fp16", overwrite=overwrite)
    console.say(f"{target}: {target.stat().st_size / 2**20:.1f} MiB, its config inside as a tensor")


def _export_for_hub(model: str, target: Path, name: str, precision: str, overwrite: bool) -> None:
    from enlcn.checkpoint import load
    from enlcn.export.hub import save_folder

    save_folder(load(model), target, name=name, half=precision == "fp16", overwrite=overwrite)
    console.say(f"{target}: a folder for the Hugging Face Hub; `hf upload OWNER/NAME {target}` publishes it")


def _short_name(model: str) -> str:
    """The last part of a name, address or path, without its ending; a run goes by its folder."""
    last = model.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    return last.removesuffix(".safetensors").removesuffix(".pt").removesuffix(".pth") or "model"
