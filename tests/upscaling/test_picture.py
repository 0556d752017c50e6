"""Grey, alpha, 16 bits, any size, the self-ensemble, and what happens when something fails."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image as Pillow
from PIL import ImageCms

import enlcn
from enlcn import recipes
from enlcn.data.image import Image
from enlcn.data.resize import imresize
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling import Engine, EngineOptions, Target, upscale_image
from enlcn.upscaling.planes import MemoryPlane
from enlcn.upscaling.resizing import resize_plane

MODEL = "untrained:enlcn-tiny"


class Interpolation(SRNetwork):
    """A network that does no more than repeat pixels, so that results can be foretold."""

    def __init__(self, scale=2):
        super().__init__(
            replace(recipes.TINY, scale=scale, num_blocks=1, attention_after=(), attention=recipes.EDSR.attention)
        )

    def features(self, lr):
        return lr

    def reconstruct(self, features):
        s = self.config.scale
        return features.repeat_interleave(s, dim=-1).repeat_interleave(s, dim=-2)


def engine(**options):
    return Engine(Interpolation(), EngineOptions(device="cpu", **options))


def picture(channels=3, dtype=np.uint8, alpha=None, size=(12, 15)):
    values = np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, (*size, channels)).astype(dtype)
    return Image(values, alpha, icc=None, exif=b"Exif", dpi=(300.0, 300.0))


def doubled(array):
    return array.repeat(2, axis=0).repeat(2, axis=1)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
def test_depth_and_channels_survive(dtype, channels):
    image = picture(channels, dtype)
    result, report = upscale_image(engine(), image)
    assert np.array_equal(result.pixels, doubled(image.pixels))
    assert result.exif == image.exif
    assert result.dpi == image.dpi
    assert report.mode == "whole"


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_hidden_colours_do_not_bleed(dtype):
    """Green, transparent left half; red, opaque right half. Through a real network no green may show."""
    top = np.iinfo(dtype).max
    pixels = np.zeros((16, 20, 3), dtype)
    pixels[:, :10, 1] = top
    pixels[:, 10:, 0] = top
    alpha = np.zeros((16, 20), dtype)
    alpha[:, 10:] = top
    result, _ = upscale_image(engine(), Image(pixels, alpha))
    visible = result.alpha > 0
    assert visible.sum() == 32 * 20
    assert result.pixels[visible][:, 1].max() == 0
    assert (result.pixels[visible][:, 0] == top).all()


def test_alpha_is_divided_out_again():
    alpha = np.full((12, 15), 128, np.uint8)
    image = picture(alpha=alpha)
    result, _ = upscale_image(engine(), image)
    assert (result.alpha == 128).all()
    assert np.abs(result.pixels.astype(int) - doubled(image.pixels)).max() <= 1


def test_opaque_alpha_stays_opaque_and_costs_nothing():
    steps, steps_of_rgb = [], []
    image = picture(alpha=np.full((12, 15), 255, np.uint8))
    result, _ = upscale_image(engine(), image, progress=lambda done, total: steps.append((done, total)))
    upscale_image(engine(), picture(), progress=lambda done, total: steps_of_rgb.append((done, total)))
    assert (result.alpha == 255).all()
    assert np.array_equal(result.pixels, doubled(image.pixels))
    assert steps == steps_of_rgb


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target(scale=2), (24, 30)),
        (Target(scale=1.5), (18, 22)),
        (Target(width=20), (16, 20)),
        (Target(height=20), (20, 25)),
        (Target(width=16, height=24), (24, 16)),
    ],
)
def test_any_size(target, expected):
    result, _ = upscale_image(engine(), picture(), target)
    assert result.pixels.shape == (*expected, 3)
    assert result.pixels.dtype == np.uint8


def test_size_beyond_the_model_is_refused():
    with pytest.raises(
        UserError, match=r"needs more than this model's x2; upscale by x2 first, then the result by x1\.2"
    ):
        upscale_image(engine(), picture(), Target(scale=2.5))


def test_shrinking_is_antialiased_bicubic():
    values = np.random.default_rng(3).integers(0, 65536, (40, 150, 3)).astype(np.uint16)
    target = MemoryPlane(np.zeros((23, 97, 3), np.uint16))
    resize_plane(MemoryPlane(values), target, np.dtype(np.uint16))
    oracle = imresize(values.astype(np.float64), size=(23, 97)).clip(0, 65535)
    assert np.abs(target.array - oracle).max() <= 1


def test_self_ensemble_is_the_mean_over_orientations():
    network = enlcn.load(f"{MODEL}-x2")
    lr = torch.rand(1, 3, 9, 13)
    turned = [lr.rot90(turns, (-2, -1)).flip(flip) for turns in range(4) for flip in ([], [-1])]
    with torch.no_grad():
        backs = [
            network(t).flip(flip).rot90(-turns, (-2, -1))
            for t, (turns, flip) in zip(turned, [(n, f) for n in range(4) for f in ([], [-1])], strict=True)
        ]
    expected = torch.stack(backs).mean(0)[0].clamp(0, 1)
    for mode in ("whole", "streaming"):
        out = enlcn.upscale(lr[0], 2, model=network, self_ensemble=True, mode=mode, device="cpu")
        assert (out - expected).abs().max() < 1 / 65535 * 2


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_reduced_precision_stays_within_a_grey_level_or_two(precision):
    network = enlcn.load(f"{MODEL}-x2")
    lr = torch.rand(3, 20, 24)
    full = enlcn.upscale(lr, 2, model=network, device="cpu")
    reduced = enlcn.upscale(lr, 2, model=network, device="cpu", precision=precision)
    assert (full - reduced).abs().max() < 2.5 / 255
    assert not torch.equal(full, reduced)


def test_values_that_are_not_finite_are_redone_in_fp32(caplog):
    network = SRNetwork(recipes.TINY).eval()
    with torch.no_grad():
        network.head.weight.mul_(1e6)  # over float16's 65504, well within float32's range
        network.upsampler[0].weight.mul_(1e-6)
    image = picture()
    expected, _ = upscale_image(Engine(network, EngineOptions(device="cpu")), image)
    result, report = upscale_image(Engine(network, EngineOptions(device="cpu", precision="fp16")), image)
    assert np.array_equal(result.pixels, expected.pixels)
    assert report.precision == "fp32"
    assert "not finite" in report.notes[0]


def test_out_of_memory_falls_back_to_streaming_once(monkeypatch):
    def exhausted(*args, **kwargs):
        raise torch.OutOfMemoryError("out of memory")

    network = SRNetwork(recipes.TINY).eval()
    expected, _ = upscale_image(Engine(network, EngineOptions(device="cpu")), picture())
    monkeypatch.setattr("enlcn.upscaling.engine.upscale_whole", exhausted)
    result, report = upscale_image(Engine(network, EngineOptions(device="cpu")), picture())
    assert report.mode == "streaming"
    assert report.notes == ("out of memory; done again by streaming",)
    assert np.abs(result.pixels.astype(int) - expected.pixels).max() <= 1
    monkeypatch.setattr("enlcn.upscaling.engine.stream", exhausted)
    with pytest.raises(torch.OutOfMemoryError):
        upscale_image(Engine(network, EngineOptions(device="cpu")), picture())


def test_auto_streams_where_the_whole_image_would_not_fit():
    network = SRNetwork(replace(recipes.SMALL, num_blocks=2, attention_after=(0, 2)))
    run = Engine(network, EngineOptions(device="cpu", memory_limit="512M"))
    image = picture(size=(300, 400))
    assert upscale_image(run, image)[1].mode == "streaming"
    run.limit = 10 * 2**30
    assert upscale_image(run, picture(size=(16, 16)))[1].mode == "whole"


def test_a_smaller_result_is_noted():
    run = Engine(SRNetwork(recipes.TINY), EngineOptions(device="cpu"))
    for target, notes in ((Target(scale=0.5), 1), (Target(width=3), 1), (Target(scale=1), 0), (Target(scale=2), 0)):
        report = upscale_image(run, picture(size=(12, 10)), target)[1]
        assert [note.startswith("smaller than the input") for note in report.notes] == [True] * notes, target


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int8"}, "choose from auto, fp32, bf16, fp16"),
        ({"mode": "tiles"}, "choose from auto, whole, streaming"),
        (
            {"device": "abacus"},
            r"'abacus' cannot be used \(no such device\); choose from auto, cpu, cuda, cuda:1, mps$",
        ),
        ({"tile": 0}, "at least 1"),
        ({"memory_limit": 5}, "at least 512 MiB"),
        ({"memory_limit": "much"}, "800M or 2G"),
        ({"tiles": 5}, "unknown option 'tiles'; choose from device"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UserError, match=message):
        enlcn.upscale(np.zeros((4, 4, 3), np.uint8), 2, model=MODEL, **options)


def test_python_api_gives_back_what_it_was_given(tmp_path):
    kinds = {
        "uint8": np.zeros((6, 7, 3), np.uint8),
        "uint16": np.zeros((6, 7, 3), np.uint16),
        "float32": np.zeros((6, 7, 3), np.float32),
        "grey": np.zeros((6, 7), np.uint8),
        "rgba": np.zeros((6, 7, 4), np.uint8),
    }
    for array in kinds.values():
        out = enlcn.upscale(array, 2, model=MODEL)
        assert out.dtype == array.dtype
        assert out.shape == (12, 14, *array.shape[2:])
    assert enlcn.upscale(torch.rand(3, 6, 7), 3, model=MODEL).shape == (3, 18, 21)
    assert enlcn.upscale(torch.rand(2, 3, 6, 7), 3, model=MODEL).shape == (2, 3, 18, 21)
    for mode in ("RGB", "L", "LA", "RGBA", "P", "I;16"):
        out = enlcn.upscale(Pillow.new(mode, (7, 6)), 2, model=MODEL)
        assert out.size == (14, 12)
        assert out.mode == {"P": "RGB"}.get(mode, mode)
    Pillow.new("RGB", (7, 6)).save(tmp_path / "p.png")
    assert enlcn.upscale(tmp_path / "p.png", 4, model=MODEL).pixels.shape == (24, 28, 3)
    wrong = np.full((6, 7, 3), 200.0, np.float32)
    for bad in (
        np.zeros((6, 7, 5), np.uint8),
        np.zeros((6, 7, 3), np.int64),
        torch.zeros(4, 6, 7),
        torch.zeros(0, 3, 6, 7),
        wrong,
        "none.png",
        3,
    ):
        with pytest.raises(UserError):
            enlcn.upscale(bad, 2, model=MODEL)
    assert enlcn.upscale(kinds["uint8"], np.int64(2), model=MODEL).shape == (12, 14, 3)
    assert enlcn.upscale(kinds["uint8"], np.float32(1.5), model=MODEL).shape == (9, 10, 3)
    for scale in ("2", float("nan"), -1):
        with pytest.raises(UserError):
            enlcn.upscale(kinds["uint8"], scale, model=MODEL)
    with pytest.raises(UserError, match="cannot take a Identity as a model"):
        enlcn.upscale(kinds["uint8"], 2, model=torch.nn.Identity())
    with pytest.raises(UserError, match="beyond x4"):
        enlcn.upscale(kinds["uint8"], 5, model=MODEL)


@pytest.mark.parametrize("size", [{"width": 21}, {"height": 18}, {"width": 21, "height": 18}, {"width": np.int64(21)}])
def test_python_api_takes_a_width_or_a_height(tmp_path, size):
    pixels = np.random.default_rng(3).integers(0, 256, (6, 7, 3)).astype(np.uint8)
    picture = Pillow.fromarray(pixels)
    picture.save(tmp_path / "p.png")
    assert enlcn.upscale(pixels, model=MODEL, **size).shape == (18, 21, 3)
    assert enlcn.upscale(torch.rand(2, 3, 6, 7), model=MODEL, **size).shape == (2, 3, 18, 21)
    assert enlcn.upscale(picture, model=MODEL, **size).size == (21, 18)
    assert enlcn.upscale(tmp_path / "p.png", model=MODEL, **size).pixels.shape == (18, 21, 3)
    assert enlcn.upscale(pixels, model=SRNetwork(recipes.TINY), **size).shape == (18, 21, 3)


def test_sizes_of_turned_pil_images_are_those_seen():
    stored = Pillow.new("RGB", (7, 6))
    exif = stored.getexif()
    exif[0x0112] = 6
    stored.info["exif"] = exif.tobytes()
    assert enlcn.upscale(stored, model=MODEL, width=12).size == (12, 14)


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ({"scale": 2, "width": 14}, "give either a scale or a width and height"),
        ({"width": 0}, "must be positive"),
        ({"width": 14.5}, "the width must be a whole number of pixels, not 14.5"),
        ({"height": "14"}, "the height must be a whole number of pixels, not '14'"),
        ({"width": 71}, "beyond x4"),
    ],
)
def test_sizes_that_cannot_be(size, told):
    with pytest.raises(UserError, match=told):
        enlcn.upscale(np.zeros((6, 7, 3), np.uint8), model=MODEL, **size)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_of_other_floats_come_back_as_such(dtype):
    assert enlcn.upscale(torch.rand(3, 6, 7).to(dtype), 2, model=MODEL).dtype == dtype


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (
            torch.zeros(3, 6, 7, dtype=torch.uint8),
            r"must be floats in \[0, 1\], not uint8; convert it, bytes by tensor",
        ),
        (torch.zeros(6, 7), r"a tensor must be \(3, H, W\), \(1, H, W\) or \(B, 3, H, W\), not \(6, 7\)"),
        (np.full((6, 7), 1.4), "floats must lie in"),
        (np.full((6, 7), -0.3), "floats must lie in"),
    ],
)
def test_what_is_wrong_with_values_is_told(image, told):
    with pytest.raises(UserError, match=told):
        enlcn.upscale(image, 2, model=MODEL)


def test_what_bicubic_interpolation_gives_is_taken():
    """A chessboard and a square: beyond them, its results reach furthest."""
    board = np.indices((16, 16)).sum(0)[..., None].repeat(3, 2) % 2 * 1.0
    square = np.pad(np.ones((8, 8, 3)), ((4, 4), (4, 4), (0, 0)))
    for image in (board, square):
        tensor = torch.from_numpy(image.transpose(2, 0, 1)).float()[None]
        ringing = torch.nn.functional.interpolate(tensor, scale_factor=3, mode="bicubic")
        assert ringing.max() > 1.1
        assert enlcn.upscale(ringing, 2, model=MODEL).max() <= 1


def test_cmyk_with_an_rgb_profile():
    picture = Pillow.new("CMYK", (7, 6), (0, 255, 255, 0))
    picture.info["icc_profile"] = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert enlcn.upscale(picture, 2, model=MODEL).mode == "RGB"


def test_pil_images_keep_depth_and_are_turned_upright():
    deep = np.linspace(0, 65535, 20 * 30).reshape(20, 30).astype(np.uint16)
    grey = enlcn.upscale(Pillow.fromarray(deep), 2, model=Interpolation())
    assert np.array_equal(np.asarray(grey), doubled(deep))
    stored = Pillow.fromarray(np.random.default_rng(1).integers(0, 256, (20, 30, 3)).astype(np.uint8))
    exif = stored.getexif()
    exif[0x0112] = 6
    stored.info["exif"] = exif.tobytes()
    turned = enlcn.upscale(stored, 2, model=Interpolation())
    assert np.array_equal(np.asarray(turned), doubled(np.rot90(np.asarray(stored), -1)))
    assert 0x0112 not in turned.getexif()


def test_scale_is_the_models_own_by_default(tmp_path):
    photo = np.zeros((5, 6, 3), np.uint8)
    assert enlcn.upscale(photo, model="untrained:enlcn-tiny-x3").shape == (15, 18, 3)
    assert enlcn.upscale(photo, model=Interpolation()).shape == (10, 12, 3)
    enlcn.save(Interpolation(), tmp_path / "w.safetensors")
    assert enlcn.upscale(photo, model=tmp_path / "w.safetensors").shape == (10, 12, 3)


def test_networks_and_files_are_taken_as_they_are_now(tmp_path):
    """A caller's network is not changed; a file that was replaced is read again."""
    photo = np.full((5, 6, 3), 90, np.uint8)
    network = SRNetwork(recipes.TINY).train().double()
    enlcn.upscale(photo, model=network)
    assert network.training
    assert network.head.weight.dtype == torch.float64
    path = tmp_path / "w.safetensors"
    enlcn.save(SRNetwork(recipes.TINY), path)
    first = enlcn.upscale(photo, model=path)
    enlcn.save(SRNetwork(recipes.TINY), path, overwrite=True)
    assert not np.array_equal(first, enlcn.upscale(photo, model=path))
