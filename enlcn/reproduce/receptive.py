"""Beyond the paper: which input pixels change an output pixel, with and without attention."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from enlcn.config import ModelConfig
from enlcn.data.image_io import to_float
from enlcn.models.backbone import SRNetwork
from enlcn.reproduce.estimators import without_attention
from enlcn.reproduce.panels import Panel, heat_panel, photo_panel, save_panels
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import BASE, FULL, RunSpec
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Column, Table

_THRESHOLD = 1e-3  # of the strongest pixel: what counts as reached
_PICTURE = "receptive.png"
_SIDE = 96


def needs(preset: Preset) -> list[RunSpec]:
    """A network trained without attention and one with it."""
    return [RunSpec(BASE, 0), RunSpec(FULL, 0)]


def measure(context: Context) -> Json:
    """Maps of |d sr / d lr| at the middle of a photograph, as a picture and in numbers."""
    side = min(_SIDE, 2 * context.preset.photo_side)
    lr = to_float(context.material.large_photos(1, side)[0].lr.to(context.device))
    name, network = context.main_model()
    networks = {name: network, f"{name}, attention skipped": without_attention(network)}
    for label, recipe in (("trained without attention", BASE), ("trained with ENLCA", FULL)):
        trained = context.trained(recipe)
        if trained is not None:
            networks[label] = trained
    point = (lr.shape[-1] // 2, lr.shape[-2] // 2)
    rows: Json = {}
    panels: list[list[Panel]] = [[photo_panel(lr, point, ["the LR photograph", f"pixel {point[0]},{point[1]}"])]]
    for label, each in networks.items():
        influence = input_influence(each, lr, point)
        rows[label] = describe(influence, point, each.config)
        share = rows[label]["beyond_convolutions"]
        caption = [label, f"from {rows[label]['reached']:.0%} of the pixels;", f"{share:.2%} from beyond convolutions"]
        panels[0].append(heat_panel(influence, point, caption, logarithmic=True))
    save_panels(panels, context.store.pictures / _PICTURE)
    return {"rows": rows, "size": list(lr.shape[-2:]), "threshold": _THRESHOLD, "picture": _PICTURE}


def input_influence(network: SRNetwork, lr: Tensor, point: tuple[int, int]) -> Tensor:
    """How much each input pixel moves the output pixels that an input pixel becomes.

    Args:
        network: of scale s.
        lr: (1, 3, H, W).
        point: (x, y) of the LR pixel; its s x s output pixels are looked at.

    Returns:
        (H, W): the Frobenius norm of d sr / d lr between colours, taken over the mean of those output pixels.
    """
    scale = network.config.scale
    x, y = point
    lr = lr.detach().requires_grad_(True)
    with torch.enable_grad():
        sr = network(lr)[0, :, scale * y : scale * (y + 1), scale * x : scale * (x + 1)].mean((1, 2))  # (3,)
        slopes = [torch.autograd.grad(colour, lr, retain_graph=True)[0][0] for colour in sr]
    return torch.stack(slopes).square().sum((0, 1)).sqrt().detach()


def convolution_radius(config: ModelConfig) -> int:
    """How far convolutions alone reach, in LR pixels (those after a pixel shuffle counted whole)."""
    steps = 1 if config.upsampler == "direct" or config.scale == 3 else config.scale.bit_length() - 1
    upsampler = steps + (0 if config.upsampler == "direct" else 1)
    return 1 + config.block_halo * config.num_blocks + 1 + upsampler


def describe(influence: Tensor, point: tuple[int, int], config: ModelConfig) -> dict[str, Any]:
    """Numbers of a map: pixels reached, the share that convolutions alone cannot bring, radii of the influence."""
    values = influence.double().cpu()
    rows = torch.arange(values.shape[0])[:, None] - point[1]
    columns = torch.arange(values.shape[1])[None, :] - point[0]
    distance = torch.maximum(rows.abs(), columns.abs())
    total = values.sum()
    order = distance.flatten().argsort()
    running = values.flatten()[order].cumsum(0) / total
    distances = distance.flatten()[order]
    radius = convolution_radius(config)
    return {
        "reached": (values > 0).double().mean().item(),
        "strongly_reached": (values > _THRESHOLD * values.max()).double().mean().item(),
        "convolution_radius": radius,
        "beyond_convolutions": (values * (distance > radius)).sum().item() / total.item(),
        "radius_50": int(distances[int((running < 0.5).sum())]),
        "radius_90": int(distances[min(len(distances) - 1, int((running < 0.9).sum()))]),
        "radius_99": int(distances[min(len(distances) - 1, int((running < 0.99).sum()))]),
        "profile": [float(np.nan_to_num(values[distance == d].mean().item())) for d in range(int(distance.max()) + 1)],
    }


def show(data: Json) -> Section:
    """Numbers of the maps."""
    height, width = data["size"]
    table = Table(
        "",
        [
            Column("network"),
            Column("pixels that matter at all", ".0%"),
            Column(f"more than {data['threshold']:g} of the strongest", ".1%"),
            Column("convolutions reach", "d"),
            Column("influence from beyond", ".3%"),
            Column("50 % within", "d"),
            Column("90 %", "d"),
            Column("99 %", "d"),
        ],
        [
            [
                label,
                row["reached"],
                row["strongly_reached"],
                row["convolution_radius"],
                row["beyond_convolutions"],
                row["radius_50"],
                row["radius_90"],
                row["radius_99"],
            ]
            for label, row in data["rows"].items()
        ],
        f"Gradient of the {height}x{width} LR photograph's middle pixel (its 4x4 output pixels) by every input pixel; "
        "radii in LR pixels, the larger of the two offsets. “Attention skipped” is the same trained network "
        "without its modules; the last two rows, where present, are trained rows of the ablation.",
    )
    return Section(tables=[table], charts={"receptive-profile": lambda: _draw(data)}, pictures=[data["picture"]])


def _draw(data: Json):  # type: ignore[no-untyped-def]
    from enlcn.reproduce import charts

    figure, (axes,) = charts.new_figure(width=8)
    for (label, row), colour, line in zip(data["rows"].items(), charts.COLOURS, ("-", "--", "-.", ":"), strict=False):
        strongest = max(row["profile"])
        profile = [value / strongest for value in row["profile"]]
        shown = [(d, value) for d, value in enumerate(profile) if value > 0]
        axes.plot(
            [d for d, _ in shown], [v for _, v in shown], color=colour, linestyle=line, linewidth=1.8, label=label
        )
    axes.set_yscale("log")
    axes.set(
        title="How far an output pixel looks",
        xlabel="distance of the input pixel (LR pixels)",
        ylabel="mean influence, relative to the strongest",
    )
    axes.legend()
    return figure


ITEM = Item("Which input pixels change an output pixel", "Beyond the paper", measure, show, needs)
