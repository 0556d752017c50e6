"""`enlcn convert` and `enlcn info`: checkpoints from the command line."""

from pathlib import Path
from typing import Annotated

import typer

from enlcn.cli import console
from enlcn.errors import UserError
from enlcn.files import check_writable

_DTYPES = ("fp32", "fp16", "bf16")


def convert(
    source: Annotated[
        str, typer.Argument(help="A checkpoint (the authors' .pt, a .safetensors file), a model's name or an address.")
    ],
    target: Annotated[Path, typer.Argument(help="Where to write, ending in .safetensors.")],
    dtype: Annotated[str, typer.Option(help="Store weights as fp32, fp16 or bf16.")] = "fp32",
    amplification: Annotated[
        float | None, typer.Option(help="k, where it is not the released 6: no file of the authors says it.")
    ] = None,
    res_scale: Annotated[float | None, typer.Option(help="Residual scaling, where it is not the released 0.1.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Convert a checkpoint to our safetensors, which carry their config."""
    if dtype not in _DTYPES:
        raise UserError(f"--dtype is '{dtype}'; choose from {', '.join(_DTYPES)}")
    from enlcn.zoo import locate, refuse_unknown

    path = locate(source)
    refuse_unknown(path)
    check_writable(target, overwrite=overwrite)
    from dataclasses import replace

    import torch

    from enlcn.checkpoint import build, read, save

    checkpoint = read(path)
    config = checkpoint.config
    if res_scale is not None:
        attention = replace(config.attention, res_scale=res_scale)
        config = replace(config, res_scale=res_scale, attention=attention)
    if amplification is not None:
        config = replace(config, attention=replace(config.attention, amplification=amplification))
    network = build(replace(checkpoint, config=config))
    stored = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    save(network, target, dtype=stored, overwrite=overwrite)
    console.say(f"{target}: {checkpoint.layout} layout read, {target.stat().st_size / 2**20:.1f} MiB written")


def info(
    model: Annotated[
        str, typer.Argument(help="A model's name, a checkpoint, a training run, an address, or untrained:NAME.")
    ],
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    size: Annotated[str, typer.Option(help="LR size WxH at which FLOPs are counted.")] = "256x256",
) -> None:
    """Show what a checkpoint is: architecture, scale, parameters, cost, attention settings."""
    width, height = _parse_size(size)
    import json

    from enlcn import recipes
    from enlcn.config import describe_body
    from enlcn.plain_config import to_plain
    from enlcn.zoo import UNTRAINED_PREFIX, locate, refuse_unknown

    if model.startswith(UNTRAINED_PREFIX):
        config, layout, bytes_on_disk = recipes.network(model.removeprefix(UNTRAINED_PREFIX)), "none", None
    else:
        file = locate(model)
        refuse_unknown(file)  # before torch is imported
        from enlcn.checkpoint import read

        checkpoint = read(file)
        file = file / "model.safetensors" if file.is_dir() else file
        config, layout, bytes_on_disk = checkpoint.config, checkpoint.layout, file.stat().st_size
    from enlcn.cost import network_flops, num_parameters

    flops = network_flops(config, height, width)
    facts = {
        "model": model,
        "layout": layout,
        "bytes": bytes_on_disk,
        "parameters": num_parameters(config),
        "flops_per_lr_pixel": flops / (width * height),
        "flops_counted_at": f"{width}x{height}",
        "config": to_plain(config),
    }
    if json_output:
        typer.echo(json.dumps(facts, indent=2))
        return
    attention = config.attention
    card = [
        ("layout", layout if bytes_on_disk is None else f"{layout}, {bytes_on_disk / 2**20:.2f} MiB"),
        ("scale", f"x{config.scale}"),
        ("body", f"{describe_body(config)}, {config.upsampler}"),
        ("parameters", f"{facts['parameters']:,}"),
        ("cost", f"{flops / (width * height) / 1e6:,.2f} MFLOPs per LR pixel (at {width}x{height})"),
    ]
    if config.num_attentions:
        card.append(("attention", f"{config.num_attentions} x {attention.kind}, after blocks {config.attention_after}"))
        settings = to_plain(config)["attention"].items()
        card += [
            (f"  {name}", str(value)) for name, value in settings if name != "kind" and _is_used(attention.kind, name)
        ]
    else:
        card.append(("attention", "none"))
    console.show_card(model, card)


def _is_used(kind: str, setting: str) -> bool:
    only = {
        "num_features": "enlca",
        "projection": "enlca",
        "feature_eps": "enlca",
        "num_rounds": "nlsa",
        "bucket_size": "nlsa",
    }
    return only.get(setting, kind) == kind


def _parse_size(text: str) -> tuple[int, int]:
    try:
        width, height = map(int, text.lower().split("x"))
    except ValueError:
        width = height = 0
    if width < 1 or height < 1:
        raise UserError(f"--size is '{text}'; give it as WxH, for example 640x360")
    return width, height
