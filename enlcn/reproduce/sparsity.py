"""Figures 7 and 8: correlation maps of ENLA, with k, and with contrastive learning too; and how sparse they are."""

from statistics import fmean

import torch

from enlcn.attention_map import attention_maps
from enlcn.data.image_io import to_float
from enlcn.models.attention import Attention
from enlcn.models.backbone import SRNetwork
from enlcn.reproduce.panels import Panel, busiest_point, heat_panel, photo_panel, save_panels
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import ENLA, ENLA_K, FULL, RunSpec
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Table

_ROWS = {"ENLA": ENLA, "ENLA + k": ENLA_K, "ENLA + k + contrast": FULL}
_PICTURE = "sparsity.png"
_PHOTOS, _SIDE = 4, 80
_MAX_ROWS = 512


def needs(preset: Preset) -> list[RunSpec]:
    """Three rows of the ablation."""
    return [RunSpec(recipe, 0) for recipe in _ROWS.values()]


def measure(context: Context) -> Json:
    """Maps at marked pixels, and the sparsity of all rows of all attentions."""
    networks = {label: network for label, recipe in _ROWS.items() if (network := context.trained(recipe)) is not None}
    side = min(_SIDE, 2 * context.preset.photo_side)
    photos = context.material.large_photos(min(_PHOTOS, context.preset.photos), side)
    lrs = [to_float(photo.lr.to(context.device)) for photo in photos]
    panels: list[list[Panel]] = []
    for lr in lrs if networks else []:
        point = busiest_point(lr)
        row = [photo_panel(lr, point, ["the LR photograph,", f"marked pixel {point[0]},{point[1]}"])]
        for label, network in networks.items():
            module = (len(network.attentions) + 1) // 2
            (found,) = attention_maps(network, lr, point, modules=[module], weighings=["exact"])
            caption = [label, f"top 1 % of pixels: {found.focus:.0%} of the weight"]
            row.append(heat_panel(found.weights, point, caption))
        panels.append(row)
    if panels:
        save_panels(panels, context.store.pictures / _PICTURE)
    numbers = {label: [sparsity(network, lr) for lr in lrs] for label, network in networks.items()}
    return {
        "rows": {
            label: {name: fmean(each[name] for each in found) for name in found[0]} for label, found in numbers.items()
        },
        "photos": len(lrs),
        "picture": _PICTURE if panels else None,
        "missing": [label for label in _ROWS if label not in networks],
    }


@torch.no_grad()
def sparsity(network: SRNetwork, lr: torch.Tensor) -> dict[str, float]:
    """How concentrated exact attention is on the network's queries and keys, mean over positions and modules.

    Returns:
        focus: weight on the heaviest 1 % of the pixels. pixels: exp of the entropy over the number of pixels, the share
        of all pixels that an even spread of the same entropy would use. gap: mean score of the 2 % most relevant
        minus that of the 2 % from rank 8 % on, in units of k (cosines).
    """
    focus, pixels, gap = [], [], []
    x = network.head(lr - network.rgb_mean)
    for stage in network.stages:
        attention = stage.attention
        if isinstance(attention, Attention):
            q, k = (each[0] for each in attention.queries_keys(x))
            q = q[:: max(1, len(q) // _MAX_ROWS)]
            scores = (q @ k.mT).sort(dim=-1, descending=True).values
            log_weights = scores.log_softmax(-1)
            count = len(k)
            focus.append(log_weights[:, : max(1, count // 100)].exp().sum(-1).mean().item())
            pixels.append((-(log_weights.exp() * log_weights).sum(-1)).exp().mean().item() / count)
            relevant = max(1, round(0.02 * count))
            start = round(0.08 * count)
            difference = scores[:, :relevant].mean() - scores[:, start : start + relevant].mean()
            gap.append(difference.item() / (attention.amplification or 1.0))
        x = stage(x)
    return {"focus": fmean(focus), "pixels": fmean(pixels), "gap": fmean(gap)}


def show(data: Json) -> Section:
    """The picture and its numbers."""
    rows: list[list[Cell]] = [[label, row["focus"], row["pixels"], row["gap"]] for label, row in data["rows"].items()]
    table = Table(
        "Exact attention on the trained networks' queries and keys, means over all positions and modules",
        [
            Column("network"),
            Column("weight on the heaviest 1 % of pixels", ".1%"),
            Column("pixels effectively used", ".1%"),
            Column("relevant minus irrelevant (cosine)", ".3f"),
        ],
        rows,
        f"Photographs: {data['photos']}. Pixels effectively used: exp(entropy) over their number. Relevant: the 2 % of "
        "highest score; irrelevant: the 2 % from rank 8 % on, as the contrastive loss takes them.",
    )
    text = [f"Not trained yet: {', '.join(data['missing'])}."] if data["missing"] else []
    text.append(
        "Brightness is the square root of the weight, each map scaled to its own maximum; the middle attention."
    )
    return Section(text=text, tables=[table], pictures=[data["picture"]] if data["picture"] else [])


ITEM = Item("Sparsity by k and contrastive learning", "Figures 7 and 8", measure, show, needs)
