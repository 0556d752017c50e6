"""`enlcn attention`: where a network looks from a pixel, drawn over the photo."""

from pathlib import Path
from typing import Annotated

import typer

from enlcn.cli import console
from enlcn.errors import UserError
from enlcn.files import check_writable, refuse_absent


def attention(
    photo: Annotated[Path, typer.Argument(help="The picture to look at.")],
    at: Annotated[list[str], typer.Option("--at", metavar="X,Y", help="The pixel to look from; repeatable.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the picture.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model's name, a checkpoint, a run's folder, or untrained:NAME; repeat for one row each. "
            "Default: what is bundled.",
        ),
    ] = None,
    module: Annotated[
        list[int] | None, typer.Option("--module", help="Which attention, from 1; repeatable. Default: all.")
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            help="exact (softmax of q.k), features (the random-feature estimate), hashed (NLSA) or criss-cross, "
            "on the same queries and keys; repeatable. Default: exact, or what the module itself restricts to."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps …")] = "cpu",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing picture.")] = False,
) -> None:
    """Draw the paper's correlation maps: the weight that one pixel gives to every other."""
    points = [_parse_point(text) for text in at]
    from enlcn.data.image_formats import format_for_path

    check_writable(out, overwrite=overwrite)
    format_for_path(out)
    refuse_absent(photo)
    import numpy as np

    from enlcn.attention_map import attention_maps
    from enlcn.attention_picture import Row, draw
    from enlcn.checkpoint import UNTRAINED_PREFIX, load
    from enlcn.data.image_io import Image, load_image, save_image, to_tensor
    from enlcn.upscaling.devices import resolve_device
    from enlcn.zoo import native_scale, resolve

    place = resolve_device(device)
    lr = to_tensor(load_image(photo)).to(place).expand(-1, 3, -1, -1)
    rows = []
    with console.progress_bar() as bar:
        for name in model or [resolve(None, native_scale(None))]:
            network = load(name, device=place)
            if not network.attentions:
                raise UserError(f"{name}: this network has no attention to show; choose another with --model")
            label = (
                f"{name.removeprefix(UNTRAINED_PREFIX)} (random weights)" if _is_untrained(name) else Path(name).name
            )
            for point in points:
                maps = attention_maps(network, lr, point, modules=module, weighings=weights)
                count = len(module or network.attentions) * len(weights or [""])
                rows.append(Row(label, point, list(bar.track(maps, total=count, description=console.escape(label)))))
    save_image(Image(np.asarray(draw(lr, rows))), out, overwrite=overwrite)
    for row in rows:
        for drawn in row.maps:
            console.say(
                f"{row.title}, pixel {row.point[0]},{row.point[1]}, attention {drawn.module} ({drawn.weighing}): "
                f"the top 1 % of pixels hold {drawn.focus:.0%} of the weight"
            )
    console.say(f"drawn: {out}")


def _is_untrained(name: str) -> bool:
    from enlcn.zoo import UNTRAINED_PREFIX

    return name.startswith(UNTRAINED_PREFIX)


def _parse_point(text: str) -> tuple[int, int]:
    try:
        x, y = map(int, text.split(","))
    except ValueError:
        raise UserError(f"--at is '{text}'; give a pixel as X,Y, for example 120,80") from None
    return x, y
