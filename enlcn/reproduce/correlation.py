"""Figure 1: where NLA, NLSA and ENLCA look from a marked pixel."""

from enlcn.attention_map import attention_maps
from enlcn.data.image_io import to_float
from enlcn.models.backbone import SRNetwork
from enlcn.reproduce.panels import Panel, busiest_point, heat_panel, photo_panel, save_panels
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import FULL, NLA, NLSA, RunSpec
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Table

_PICTURE = "correlation.png"
_PHOTOS, _SIDE = 4, 80


def needs(preset: Preset) -> list[RunSpec]:
    """One network of each kind."""
    return [RunSpec(NLA, 0), RunSpec(NLSA, 0), RunSpec(FULL, 0)]


def measure(context: Context) -> Json:
    """Maps of trained networks; of one network's queries and keys weighed three ways; their numbers."""
    trained = {"NLA": context.trained(NLA), "NLSA": context.trained(NLSA), "ENLCA": context.trained(FULL)}
    name, network = context.main_model()
    last = len(network.attentions)
    looks: dict[str, tuple[SRNetwork, int, list[str] | None]] = {
        f"{label}, trained here": (each, (len(each.attentions) + 1) // 2, None)
        for label, each in trained.items()
        if each is not None
    }
    for weighing in ("exact", "hashed", "features"):
        looks[f"{name}: {weighing}"] = (network, (last + 1) // 2, [weighing])
    focus: dict[str, list[float]] = {label: [] for label in looks}
    side = min(_SIDE, 2 * context.preset.photo_side)
    rows: list[list[Panel]] = []
    for photo in context.material.large_photos(min(_PHOTOS, context.preset.photos), side):
        lr = to_float(photo.lr.to(context.device))
        point = busiest_point(lr)
        row = [photo_panel(lr, point, ["the LR photograph,", f"marked pixel {point[0]},{point[1]}"])]
        for label, (each, module, weighings) in looks.items():
            (found,) = attention_maps(each, lr, point, modules=[module], weighings=weighings)
            focus[label].append(found.focus)
            caption = [label, f"top 1 % of pixels: {found.focus:.0%} of the weight"]
            row.append(heat_panel(found.weights, point, caption))
        rows.append(row)
    save_panels(rows, context.store.pictures / _PICTURE)
    return {"focus": focus, "picture": _PICTURE, "missing": [label for label, each in trained.items() if each is None]}


def show(data: Json) -> Section:
    """The picture and how concentrated its maps are."""
    columns = len(next(iter(data["focus"].values())))
    rows: list[list[Cell]] = [[label, *values] for label, values in data["focus"].items()]
    table = Table(
        "Share of the weight on the heaviest 1 % of the pixels",
        [Column("attention"), *(Column(f"photograph {index + 1}", ".1%") for index in range(columns))],
        rows,
        "“Trained here”: networks of this reproduction, each weighing as it does itself (ENLCA: the softmax of q·k "
        "that its features estimate, as the paper draws it). Below: one trained ENLCA network, its queries and keys "
        "weighed by exact softmax, by NLSA's hashing, and by its random features.",
    )
    text = [f"Not trained yet: {', '.join(data['missing'])}."] if data["missing"] else []
    text.append(
        "Brightness is the square root of the weight, each map scaled to its own maximum; the middle attention."
    )
    return Section(text=text, tables=[table], pictures=[data["picture"]])


ITEM = Item("Correlation maps of NLA, NLSA and ENLCA", "Figure 1", measure, show, needs)
