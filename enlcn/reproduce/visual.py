"""Figure 5: crops of images with repeated structure: HR, bicubic, and every network at hand."""

import tempfile
from pathlib import Path

from enlcn.data.image_io import Image, save_image
from enlcn.data.testsets import find_testsets
from enlcn.evaluate import Evaluated, Settings, evaluate
from enlcn.evaluate.crops import CropCollector
from enlcn.evaluate.upscalers import ModelSource
from enlcn.reproduce.preset import SCALE, Preset
from enlcn.reproduce.rows import BASE, FULL, RunSpec
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Table
from enlcn.zoo import native_scale

_PICTURE = "visual.png"
_PHOTOS, _SIDE = 4, 128


def needs(preset: Preset) -> list[RunSpec]:
    """The network without attention and the whole one."""
    return [RunSpec(BASE, 0), RunSpec(FULL, 0)]


def measure(context: Context) -> Json:
    """Crops where the networks differ most, of photographs with repeated structure, and PSNR of the whole ones."""
    models: dict[str, ModelSource] = {"bicubic": "bicubic"}
    for label, recipe in (("no attention, trained here", BASE), ("ENLCA, trained here", FULL)):
        network = context.trained(recipe)
        if network is not None:
            models[label] = network
    models |= {name: path for name, path in context.all_models().items() if native_scale(path) == SCALE}
    photos = context.material.large_photos(
        min(_PHOTOS, context.preset.photos), min(_SIDE, 2 * context.preset.photo_side)
    )
    collector = CropCollector(Settings(SCALE, SCALE), None, tuple(_stem(photo.name) for photo in photos))
    scores: dict[str, dict[str, float]] = {}

    def look(evaluated: Evaluated) -> None:
        collector(evaluated)
        scores[evaluated.image] = {name: score.psnr_y for name, score in evaluated.scores.items()}

    with tempfile.TemporaryDirectory() as folder:
        for photo in photos:
            pixels = photo.hr[0].permute(1, 2, 0).contiguous().numpy()
            save_image(Image(pixels), Path(folder) / "photographs" / f"{_stem(photo.name)}.png")
        testsets = find_testsets(Path(folder) / "photographs", SCALE)
        evaluate(models, testsets, SCALE, device=str(context.device), on_image=look)
    save_image(collector.picture(), context.store.pictures / _PICTURE, overwrite=True)
    return {"scores": scores, "models": list(models), "picture": _PICTURE, "are_seen": context.material.split.are_seen}


def _stem(name: str) -> str:
    return Path(name).stem


def show(data: Json) -> Section:
    """The picture, and PSNR of its photographs."""
    columns = [Column("photograph"), *(Column(name) for name in data["models"])]
    rows: list[list[Cell]] = [[name, *(row[model] for model in data["models"])] for name, row in data["scores"].items()]
    table = Table("PSNR on Y in dB, centres of the photographs", columns, rows)
    text = [
        "The paper shows Urban100; here, held-out photographs of buildings where there are some. Crops are taken where "
        "the networks differ most."
    ]
    if data.get("are_seen"):
        text.append("No other pictures were at hand: these are training pictures of the networks trained here.")
    return Section(text=text, tables=[table], pictures=[data["picture"]])


ITEM = Item("Visual comparison", "Figure 5", measure, show, needs)
