"""Reports and crops: every figure in every file, and pictures that show what they claim."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from enlcn.data.image_io import load_image
from enlcn.errors import UserError
from enlcn.evaluate import Evaluated, ImageScore, Results, Score, Settings
from enlcn.evaluate.crops import CROP_SIDE, CropCollector, busiest_box
from enlcn.evaluate.report import table_rows, to_csv, to_json, to_markdown, write_reports
from enlcn.evaluate.results import ModelInfo, TestsetInfo


@pytest.fixture
def results() -> Results:
    def score(psnr: float) -> Score:
        return Score(psnr, psnr / 100, psnr - 1, psnr / 100 - 0.01, 0.5)

    figures = {("ours", "a"): 30.0, ("ours", "b"): 32.0, ("bicubic", "a"): 27.0, ("bicubic", "b"): math.inf}
    return Results(
        Settings(scale=4, shave=4, self_ensemble=True),
        (ModelInfo("ours", "ours.safetensors", 12), ModelInfo("bicubic", "bicubic", 0)),
        (TestsetInfo("Set5", "data/Set5", 2, "files"),),
        tuple(ImageScore(model, "Set5", image, score(psnr)) for (model, image), psnr in figures.items()),
    )


def test_json_holds_every_figure_and_every_setting(results):
    document = json.loads(to_json(results, with_paper=True), parse_constant=pytest.fail)
    assert document["settings"]["mode"] == "whole"
    assert document["settings"]["precision"] == "fp32"
    assert document["settings"]["self_ensemble"] is True
    assert document["means"][0]["psnr_y"] == 31
    assert document["means"][1]["psnr_y"] == "inf"
    assert [each["psnr_y"] for each in document["images"]] == [30, 32, 27, "inf"]
    assert document["testsets"][0]["lr_source"] == "files"
    assert len(document["paper"]["methods"]) == 14
    assert "paper" not in json.loads(to_json(results))


def test_csv_has_a_line_for_every_image(results):
    lines = list(csv.DictReader(io.StringIO(to_csv(results))))
    assert [(line["model"], line["image"]) for line in lines] == [
        ("ours", "a"),
        ("ours", "b"),
        ("bicubic", "a"),
        ("bicubic", "b"),
    ]
    assert float(lines[1]["ssim_rgb"]) == pytest.approx(0.31)
    assert float(lines[3]["psnr_y"]) == math.inf


def test_markdown_and_table(results):
    text = to_markdown(results, with_paper=True)
    assert "| ours | 31.00 / 0.3100 |" in text
    assert "| ENLCN (paper) | 32.67 / 0.9004 |" in text
    assert "| a | 30.00 / 0.3000 | 27.00 / 0.2700 |" in text
    assert "self-ensemble x8" in text
    assert "AAAI 2022" in text
    assert [row.method for row in table_rows(results)] == ["ours", "bicubic"]
    assert len(table_rows(results, with_paper=True)) == 16


def test_reports_do_not_replace_others_unless_told(results, tmp_path):
    paths = write_reports(results, tmp_path)
    assert [path.name for path in paths] == ["results.json", "results.csv", "results.md"]
    with pytest.raises(UserError, match=r"results\.json: exists already"):
        write_reports(results, tmp_path)
    write_reports(results, tmp_path, overwrite=True)


def photo_and_damage(place: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """A photo (1, 3, 200, 240) and a copy with one damaged square of 40 pixels."""
    from skimage.data import astronaut

    hr = torch.from_numpy(astronaut()[:200, 100:340].copy()).permute(2, 0, 1)[None]
    damaged = hr.clone()
    x, y = place
    damaged[..., y : y + 40, x : x + 40] = 255 - damaged[..., y : y + 40, x : x + 40]
    return hr, damaged


@pytest.mark.parametrize("place", [(10, 20), (150, 120)])
def test_the_crop_is_where_the_models_differ(place, tmp_path):
    hr, damaged = photo_and_damage(place)
    for candidates in ([hr, damaged], [damaged]):
        score, (x, y, width, height) = busiest_box(hr, candidates)
        assert score > 0
        assert (width, height) == (CROP_SIDE, CROP_SIDE)
        assert x <= place[0] + 20 < x + width
        assert y <= place[1] + 20 < y + height


def test_small_images_are_shown_whole():
    hr = torch.randint(0, 256, (1, 3, 30, 500), dtype=torch.uint8)
    assert busiest_box(hr, [hr, 255 - hr])[1][1:] == (0, CROP_SIDE, 30)


def evaluated(name: str, place: tuple[int, int] = (10, 20)) -> Evaluated:
    hr, damaged = photo_and_damage(place)
    score = Score(1, 1, 1, 1, 1)
    return Evaluated("Set", name, hr[..., ::4, ::4].contiguous(), hr, {"ours": damaged}, {"ours": score})


def test_the_picture_shows_lr_bicubic_each_model_and_hr():
    collector = CropCollector(Settings(scale=4, shave=4), box=(16, 24, 40, 40))
    collector(evaluated("a"))
    picture = collector.picture().pixels
    hr, damaged = photo_and_damage((10, 20))
    zoom = 5  # 40 pixels on 200

    def enlarged(image: torch.Tensor) -> np.ndarray:
        crop = image[0, :, 24:64, 16:56].permute(1, 2, 0).numpy()
        return crop.repeat(zoom, axis=0).repeat(zoom, axis=1)[1:-1, 1:-1]  # its edge is drawn over

    blocks = evaluated("a").lr.repeat_interleave(4, -2).repeat_interleave(4, -1)
    height, width = 198, 198
    windows = np.lib.stride_tricks.sliding_window_view(picture[9 : 9 + height], width, axis=1)
    found = []
    for image in (blocks, damaged, hr):
        matches = [
            x for x in range(windows.shape[1]) if np.array_equal(windows[:, x].transpose(0, 2, 1), enlarged(image))
        ]
        assert len(matches) == 1
        found += matches
    assert found == sorted(found)
    assert found[1] - found[0] > 2 * 200  # bicubic stands between LR and the model


def test_rows_follow_the_sets_or_the_images_named():
    by_set = CropCollector(Settings(scale=4, shave=4))
    for name in ("a", "b"):
        by_set(evaluated(name))
    named = CropCollector(Settings(scale=4, shave=4), images=("a", "Set/b", "other"))
    for name in ("a", "b", "c"):
        named(evaluated(name))
    assert named.picture().height > 1.9 * by_set.picture().height


def test_crops_that_are_not_there_are_named():
    with pytest.raises(UserError, match="a: the crop 200,0,64,64 does not lie within its 240x200"):
        CropCollector(Settings(scale=4, shave=4), box=(200, 0, 64, 64))(evaluated("a"))
    nothing = CropCollector(Settings(scale=4, shave=4), images=("z",))
    nothing(evaluated("a"))
    with pytest.raises(UserError, match="none of the images z is in the test sets"):
        nothing.picture()


def test_the_picture_can_be_saved(tmp_path: Path):
    from enlcn.data.image_io import save_image

    collector = CropCollector(Settings(scale=4, shave=4))
    collector(evaluated("a"))
    path = save_image(collector.picture(), tmp_path / "crops.png")
    assert load_image(path).width > 4 * 200
