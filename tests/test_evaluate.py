"""The evaluation lands on published figures, and says loudly what it cannot measure."""

import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from enlcn import checkpoint, recipes
from enlcn.data.image_io import Image, save_image, to_float
from enlcn.data.testsets import find_testsets
from enlcn.errors import UserError
from enlcn.evaluate import Evaluated, evaluate, paper
from enlcn.metrics import psnr, ssim
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.ensemble import mean_over_turns

PUBLISHED_BICUBIC = {
    ("Set5", 2): (33.66, 0.9299),
    ("Set5", 4): (28.42, 0.8104),
    ("B100", 2): (29.56, 0.8431),
    ("B100", 4): (25.96, 0.6675),
}
SECONDS_FOR_B100 = 30


class Nearest(nn.Module):
    def __init__(self, scale: int = 4):
        super().__init__()
        self.scale = scale

    def forward(self, lr):
        return lr.repeat_interleave(self.scale, -2).repeat_interleave(self.scale, -1)


class Broken(Nearest):
    def forward(self, lr):
        return super().forward(lr) * math.nan


def test_modules_of_others_take_the_precision_of_the_device(photos):
    results = evaluate({"nearest": Nearest()}, [photos], 4, device="cpu", precision="auto")
    assert results.mean("nearest", "photos").psnr_y > 20


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder of two HR images, one of them grey."""
    from skimage.data import astronaut

    photo = astronaut()
    save_image(Image(photo[:130, 100:231]), tmp_path / "photos" / "colour.png")
    save_image(Image(photo[200:290, 200:320, :1]), tmp_path / "photos" / "grey.png")
    return tmp_path / "photos"


@pytest.mark.parametrize(("name", "scale"), PUBLISHED_BICUBIC)
def test_bicubic_lands_on_the_published_figures(name, scale, data_dir):
    began = time.perf_counter()
    results = evaluate(["bicubic"], [data_dir / "benchmarks" / name], scale, device="cpu")
    mean = results.mean("bicubic", name)
    assert mean.psnr_y == pytest.approx(PUBLISHED_BICUBIC[name, scale][0], abs=0.02)
    assert mean.ssim_y == pytest.approx(PUBLISHED_BICUBIC[name, scale][1], abs=0.001)
    assert results.testsets[0].lr_source == "files"
    assert time.perf_counter() - began < SECONDS_FOR_B100


def test_set14_with_its_grey_image(data_dir):
    results = evaluate(["bicubic"], [data_dir / "benchmarks" / "Set14"], 4, device="cpu")
    mean = results.mean("bicubic", "Set14")
    assert mean.psnr_y == pytest.approx(26.00, abs=0.1)
    assert mean.ssim_y == pytest.approx(0.7027, abs=0.005)
    assert len(results.images) == 14


def test_made_lr_images_give_what_the_files_give(data_dir, tmp_path):
    hr = data_dir / "benchmarks" / "Set5" / "HR"
    copies = tmp_path / "copies"
    copies.mkdir()
    for path in hr.iterdir():
        (copies / path.name).symlink_to(path)
    made = evaluate(["bicubic"], [copies], 4, border="clamp", device="cpu")
    read = evaluate(["bicubic"], [hr], 4, device="cpu")
    assert made.testsets[0].lr_source == "imresize of HR, border=clamp"
    assert made.mean("bicubic", "copies").psnr_y == read.mean("bicubic", "Set5").psnr_y


def test_every_figure_is_that_of_the_metrics(photos):
    seen: list[Evaluated] = []
    counts: list[int] = []
    results = evaluate(
        {"nearest": Nearest(), "plain": "bicubic"},
        [photos],
        4,
        device="cpu",
        on_start=counts.append,
        on_image=seen.append,
    )
    assert counts == [2]
    assert [(each.model, each.image) for each in results.images] == [
        ("nearest", "colour"),
        ("plain", "colour"),
        ("nearest", "grey"),
        ("plain", "grey"),
    ]
    colour = seen[0]
    assert colour.hr.shape == (1, 3, 128, 128)
    assert colour.lr.shape == (1, 3, 32, 32)
    assert torch.equal(colour.sr["nearest"], Nearest()(colour.lr))
    score = results.images[0].score
    assert score.psnr_y == psnr(colour.sr["nearest"], colour.hr, shave=4)
    assert score.ssim_y == ssim(colour.sr["nearest"], colour.hr, shave=4)
    assert score.psnr_rgb == psnr(colour.sr["nearest"], colour.hr, shave=4, channels="rgb")
    assert score.ssim_rgb == ssim(colour.sr["nearest"], colour.hr, shave=4, channels="rgb")
    mean = results.mean("nearest", "photos")
    assert mean.psnr_y == pytest.approx((results.images[0].score.psnr_y + results.images[2].score.psnr_y) / 2)


def test_checkpoints_are_loaded_and_named(photos, tmp_path):
    network = SRNetwork(recipes.TINY)
    first, second = tmp_path / "a" / "net.safetensors", tmp_path / "b" / "net.safetensors"
    for path in (first, second):
        checkpoint.save(network, path)
    results = evaluate([str(first), "bicubic"], [photos], 4, device="cpu")
    assert [model.name for model in results.models] == ["net", "bicubic"]
    assert results.models[0].parameters == sum(p.numel() for p in network.parameters())
    direct = evaluate({"direct": network}, [photos], 4, device="cpu")
    assert results.mean("net", "photos").psnr_y == direct.mean("direct", "photos").psnr_y
    both = evaluate([str(first), str(second)], [photos], 4, device="cpu")
    assert [model.name for model in both.models] == [str(first), str(second)]
    with pytest.raises(UserError, match=r"net\.safetensors: the network upscales x4, the evaluation is x2"):
        evaluate([str(first)], [photos], 2, device="cpu")


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_narrow_precision_stays_close(precision, photos):
    network = SRNetwork(recipes.TINY)
    exact = evaluate({"net": network}, [photos], 4, device="cpu")
    narrow = evaluate({"net": network}, [photos], 4, device="cpu", precision=precision)
    assert narrow.settings.precision == precision
    a, b = exact.mean("net", "photos").psnr_y, narrow.mean("net", "photos").psnr_y
    assert a != b
    assert a == pytest.approx(b, abs=0.1)


def test_self_ensemble_turns_with_the_image():
    torch.manual_seed(0)
    crooked = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), nn.PixelShuffle(4))
    lr = torch.rand(1, 3, 9, 12)
    with torch.inference_mode():
        averaged = mean_over_turns(crooked, lr)
        assert averaged.shape == (1, 3, 36, 48)
        for turn in (lambda x: x.rot90(1, (-2, -1)), lambda x: x.flip(-1), lambda x: x.transpose(-2, -1)):
            assert torch.allclose(mean_over_turns(crooked, turn(lr)), turn(averaged), atol=1e-6)
            assert not torch.allclose(crooked(turn(lr)), turn(crooked(lr)), atol=1e-3)
        assert torch.allclose(mean_over_turns(Nearest(), lr), Nearest()(lr))


def test_self_ensemble_is_used_and_recorded(photos):
    network = SRNetwork(recipes.TINY)
    seen: list[Evaluated] = []
    results = evaluate({"net": network}, [photos], 4, device="cpu", self_ensemble=True, on_image=seen.append)
    assert results.settings.self_ensemble
    with torch.inference_mode():
        expected = mean_over_turns(network.eval(), to_float(seen[0].lr))
    assert (to_float(seen[0].sr["net"]) - expected.clamp(0, 1)).abs().max() < 0.51 / 255


def test_streaming_gives_the_same_figures(photos):
    network = SRNetwork(recipes.TINY)
    whole = evaluate({"net": network}, [photos], 4, device="cpu")
    streamed = evaluate({"net": network}, [photos], 4, device="cpu", mode="streaming")
    assert streamed.settings.mode == "streaming"
    assert streamed.mean("net", "photos").psnr_y == pytest.approx(whole.mean("net", "photos").psnr_y, abs=1e-3)
    with pytest.raises(UserError, match="only networks of this package can be streamed"):
        evaluate({"near": Nearest()}, [photos], 4, device="cpu", mode="streaming")
    with pytest.raises(UserError, match="choose from whole, streaming"):
        evaluate(["bicubic"], [photos], 4, mode="tiles")


def test_what_cannot_be_measured_is_an_error(photos, tmp_path):
    with pytest.raises(UserError, match="broken returned NaN or infinity in fp32"):
        evaluate({"broken": Broken()}, [photos], 4, device="cpu")
    with pytest.raises(UserError, match="wrong made 64x64 pixels of colour, expected 128x128"):
        evaluate({"wrong": Nearest(2)}, [photos], 4, device="cpu")
    with pytest.raises(UserError, match="nothing to evaluate"):
        evaluate([], [photos], 4)
    with pytest.raises(UserError, match="choose from auto, fp32, bf16, fp16"):
        evaluate(["bicubic"], [photos], 4, precision="int8")
    with pytest.raises(UserError, match="device 'warp' cannot be used"):
        evaluate(["bicubic"], [photos], 4, device="warp")
    with pytest.raises(UserError, match="no such file or model"):
        evaluate(["nowhere.safetensors"], [photos], 4)
    with pytest.raises(UserError, match="read for x2, the evaluation is x4"):
        evaluate(["bicubic"], find_testsets(photos, 2), 4)
    save_image(Image(np.zeros((12, 12, 3), np.uint8)), tmp_path / "small" / "tiny.png")
    with pytest.raises(UserError, match=r"tiny\.png: SSIM needs at least 11x11"):
        evaluate(["bicubic"], [tmp_path / "small"], 4)


def test_sets_of_one_name_are_told_apart(photos, tmp_path):
    other = tmp_path / "other" / "photos"
    other.parent.mkdir()
    other.symlink_to(photos)
    results = evaluate(["bicubic"], [photos, other], 4, device="cpu")
    assert [each.name for each in results.testsets] == [str(photos), str(other)]


def test_the_papers_table_is_whole():
    for scale in (2, 4):
        methods = paper.methods(scale)
        assert len(methods) == 14
        assert all(set(by_set) == {"Set5", "Set14", "B100", "Urban100", "Manga109"} for by_set in methods.values())
        missing = [(m, s) for m, by_set in methods.items() for s, figures in by_set.items() if figures is None]
        assert missing == [("NLRN", "Manga109"), ("OISR", "Manga109")]
    assert paper.methods(4)["ENLCN"]["Urban100"] == (27.12, 0.8141)
    assert paper.methods(4)["EDSR"]["Set5"] == (32.46, 0.8968)
    assert paper.methods(2)["ENLCN"]["Manga109"] == (39.64, 0.9791)
    assert paper.methods(2)["NLSN"]["Set14"] == (34.08, 0.9231)
    assert paper.methods(3) == {}
    assert "AAAI 2022" in paper.source()
