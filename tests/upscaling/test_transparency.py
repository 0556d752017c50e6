"""Cut-outs have no rims and no ghost lines, whatever hides under them, at any size, depth and tile."""

import numpy as np
import pytest
import torch

import enlcn
from enlcn import recipes
from enlcn.data.image import Image
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling import Engine, EngineOptions, Target, upscale_image
from enlcn.upscaling.filling import REACH, SPREADS, filled, trust
from enlcn.upscaling.planes import MemoryPlane, in_memory
from enlcn.upscaling.ranges import hold_alpha, hold_colours

ORANGE = np.array([230, 120, 30])


@pytest.fixture(scope="module")
def network():
    """Untrained: nothing that it gives is right of itself."""
    torch.manual_seed(0)
    return SRNetwork(recipes.TINY).eval()


def run(network, image, scale=4.0, **options):
    return upscale_image(Engine(network, EngineOptions(device="cpu", **options)), image, Target(scale=scale))[0]


def frame(channels=3, dtype=np.uint8, faint=False):
    """A frame of one colour, three pixels wide, anything hidden inside and around it."""
    largest, rng = np.iinfo(dtype).max, np.random.default_rng(1)
    pixels = rng.integers(0, largest + 1, (26, 31, channels)).astype(dtype)
    alpha = np.zeros((26, 31), dtype)
    alpha[5:20, 6:24] = largest
    alpha[8:17, 9:21] = 0
    if faint:
        alpha[alpha > 0] = rng.integers(1, largest + 1, (alpha > 0).sum())
    pixels[alpha > 0] = ORANGE[:channels] * (largest // 255)
    return Image(pixels, alpha)


def nearest(result, source):
    return (2 * np.arange(result) + 1) * source // (2 * result)


def standing_out(array):
    """Naive: by how much a pixel (H, W) is above both neighbours of its row, or of its column."""
    result = np.zeros(array.shape)
    for y, x in np.ndindex(array.shape):
        if 0 < y < array.shape[0] - 1:
            result[y, x] = max(result[y, x], array[y, x] - max(array[y - 1, x], array[y + 1, x]))
        if 0 < x < array.shape[1] - 1:
            result[y, x] = max(result[y, x], array[y, x] - max(array[y, x - 1], array[y, x + 1]))
    return result


def limits(array, shape, reach):
    """Naive: what the alpha `array` (H, W) allows each pixel of a result of `shape`."""
    low, high = np.empty(shape), np.empty(shape)
    array = array.astype(int)
    above, below = standing_out(array), standing_out(-array)
    for y, row in enumerate(nearest(shape[0], array.shape[0])):
        for x, column in enumerate(nearest(shape[1], array.shape[1])):
            part = slice(max(0, row - reach), row + reach + 1), slice(max(0, column - reach), column + reach + 1)
            low[y, x] = max(0, array[part].min() - below[part].max())
            high[y, x] = array[part].max() + above[part].max()
    return low, high


@pytest.mark.parametrize("shape", ["square", "disc"])
def test_trained_networks_leave_no_rims(shape):
    rows, columns = np.mgrid[-24:24:0.25, -24:24:0.25] + 0.125
    fine = (abs(rows) < 12) & (abs(columns) < 12) if shape == "square" else np.hypot(rows, columns) < 14
    alpha = (fine.reshape(48, 4, 48, 4).mean(axis=(1, 3)) * 255).round().astype(np.uint8)
    image = Image(np.broadcast_to(ORANGE, (48, 48, 3)).astype(np.uint8), alpha)
    result = run(enlcn.load("enlcn-light-x4"), image)
    assert np.abs(result.pixels[result.alpha > 0] - ORANGE).max() <= 1
    low, high = limits(alpha, result.alpha.shape, 1)
    assert (result.alpha[high == 0] == 0).all()
    assert (result.alpha[low == 255] == 255).all()
    assert np.abs(result.alpha - 255.0 * fine).mean() < 3  # an edge as sharp as it was


def test_edges_are_held_and_thin_lines_are_not():
    alpha = np.zeros((9, 20, 1), np.uint8)
    alpha[2:7, 2:7] = 100  # a square
    alpha[:, 14] = 100  # a line
    for value, line in ((255, 200), (0, 0)):
        result = MemoryPlane(np.full((36, 80, 1), value, np.uint8))
        hold_alpha(MemoryPlane(alpha), result)
        assert (result.array[:, : 8 * 4] <= 100).all()
        assert (result.array[16:20, 16:20] == 100).all()
        assert (result.array[:, 13 * 4 : 16 * 4] == line).all()
        assert not result.array[:, 8 * 4 : 13 * 4].any()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("faint", [False, True])
@pytest.mark.parametrize("scale", [4, 2.7, 0.6])
def test_one_colour_stays_one_colour(network, dtype, channels, faint, scale):
    image = frame(channels, dtype, faint)
    result = run(network, image, scale)
    assert result.pixels.dtype == result.alpha.dtype == dtype
    colour = ORANGE[:channels] * (np.iinfo(dtype).max // 255)
    assert (result.alpha > 0).any()
    assert (result.pixels[result.alpha > 0] == colour).all()
    low, high = limits(image.alpha, result.alpha.shape, 1 if scale > 1 else 2)
    assert (low <= result.alpha).all()
    assert (result.alpha <= high).all()


@pytest.mark.parametrize("options", [{"self_ensemble": True}, {"mode": "streaming", "tile": 7}, {"precision": "bf16"}])
def test_one_colour_however_it_is_computed(network, options):
    result = run(network, frame(), **options)
    assert (result.pixels[result.alpha > 0] == ORANGE).all()


@pytest.mark.parametrize("scale", [4, 2.7])
def test_what_is_hidden_makes_no_difference(network, scale):
    one, other = frame(), frame()
    other.pixels[other.alpha == 0] = 7
    results = [run(network, image, scale) for image in (one, other)]
    assert np.array_equal(results[0].pixels, results[1].pixels)
    assert np.array_equal(results[0].alpha, results[1].alpha)


def textured():
    rng = np.random.default_rng(2)
    alpha = np.full((24, 40), 255, np.uint8)
    alpha[:, :12] = rng.integers(0, 256, (24, 12)) * (rng.random((24, 12)) < 0.5)
    return Image(rng.integers(0, 256, (24, 40, 3)).astype(np.uint8), alpha)


def planes(image):
    return MemoryPlane(image.pixels), MemoryPlane(image.alpha[..., None])


def test_far_from_transparency_the_network_has_its_way(network):
    image = textured()
    fill = filled(*planes(image), np.dtype(np.uint8), in_memory)
    opaque = run(network, Image(fill.array))
    result = run(network, image)
    far = 4 * (12 + 2)
    assert np.array_equal(result.pixels[:, far:], opaque.pixels[:, far:])
    assert not np.array_equal(result.pixels[:, :far], opaque.pixels[:, :far])
    assert (result.alpha[:, 4 * (12 + 1) :] == 255).all()


@pytest.mark.parametrize("tile", [5, 16])
def test_tiles_make_no_difference(network, tile):
    whole, streamed = (run(network, textured(), **options) for options in ({}, {"mode": "streaming", "tile": tile}))
    assert np.abs(whole.pixels.astype(int) - streamed.pixels).max() <= 1
    assert np.abs(whole.alpha.astype(int) - streamed.alpha).max() <= 1


@pytest.mark.parametrize("size", [(96, 160), (53, 90), (17, 30)])
def test_strips_make_no_difference(monkeypatch, size):
    pixels, alpha = planes(textured())
    rng = np.random.default_rng(3)
    upscaled, upscaled_alpha = (rng.integers(0, 256, (*size, c)).astype(np.uint8) for c in (3, 1))
    results = []
    for strip, side in ((1 << 20, 512), (200, 7)):
        monkeypatch.setattr("enlcn.upscaling.planes._STRIP_PIXELS", strip)
        monkeypatch.setattr("enlcn.upscaling.filling._SIDE", side)
        fill = filled(pixels, alpha, np.dtype(np.uint8), in_memory)
        colours, shares = MemoryPlane(upscaled.copy()), MemoryPlane(upscaled_alpha.copy())
        hold_alpha(alpha, shares)
        hold_colours(pixels, alpha, fill, colours)
        results.append((fill.array, colours.array, shares.array))
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)
    low, high = limits(alpha.array[..., 0], size, 1 if size[0] > 24 else 2)
    assert np.array_equal(results[0][2][..., 0], upscaled_alpha[..., 0].clip(low, high))


def test_colours_stay_within_those_that_are_seen():
    """Against loops over pixels: hidden ones around allow no more than what is seen around."""
    image = textured()
    pixels, alpha = planes(image)
    fill = filled(pixels, alpha, np.dtype(np.uint8), in_memory)
    result = MemoryPlane(np.random.default_rng(3).integers(0, 256, (48, 80, 3)).astype(np.uint8))
    before = result.array.copy()
    hold_colours(pixels, alpha, fill, result)
    own = trust(alpha.array)[..., 0]
    for y, x in np.ndindex(48, 80):
        around = (slice(max(0, y // 2 - 2), y // 2 + 3), slice(max(0, x // 2 - 2), x // 2 + 3))
        seen = image.pixels[around][image.alpha[around] > 0]
        if image.alpha[around].min() == 255:
            assert np.array_equal(result.array[y, x], before[y, x])
        elif own[around].min() < 1:
            wanted = before[y, x].clip(seen.min(0), seen.max(0)) if len(seen) else fill.array[y // 2, x // 2]
            assert np.array_equal(result.array[y, x], wanted)


def test_filling_is_a_normalised_convolution():
    rng = np.random.default_rng(4)
    pixels = rng.integers(0, 65536, (30, 34, 1)).astype(np.uint16)
    alpha = np.zeros((30, 34, 1), np.uint16)
    alpha[2:9, 3:8] = 65535
    result = filled(MemoryPlane(pixels), MemoryPlane(alpha), np.dtype(np.uint16), in_memory).array
    seen = alpha > 0
    assert np.array_equal(result[seen], pixels[seen])
    mean = pixels[seen].mean()
    for y, x in ((0, 0), (9, 8), (12, 4), (18, 18), (29, 33)):
        rows, columns = (np.arange(30) - y)[:, None, None], (np.arange(34) - x)[None, :, None]
        kernel = sum(
            weight
            * np.exp(-(rows**2 + columns**2) / (2 * deviation**2))
            * (np.maximum(abs(rows), abs(columns)) <= radius)
            for deviation, radius, weight in SPREADS
        )
        wanted = ((kernel * seen * pixels).sum() + 1e-6 * mean) / ((kernel * seen).sum() + 1e-6)
        assert abs(result[y, x, 0] - wanted) <= 1
    assert (result[9 + REACH :, 8 + REACH :] == result[-1, -1]).all()


def test_only_pixels_much_fainter_than_their_neighbours_are_filled():
    alpha = np.full((3, 5, 1), 9, np.uint8)
    assert (trust(alpha) == 1).all()
    alpha[1, 1:, 0] = 0, 100, 255, 255
    assert trust(alpha)[1, :3, 0].tolist() == [1, 0, 1]
    assert trust(alpha)[0, 2, 0] == pytest.approx(9 / 255 * 4)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_white_is_filled_with_white(dtype):
    image = frame(3, dtype, faint=True)
    image.pixels[image.alpha > 0] = np.iinfo(dtype).max
    assert (filled(*planes(image), np.dtype(dtype), in_memory).array == np.iinfo(dtype).max).all()


def test_nothing_visible_at_all(network):
    image = frame()
    result = run(network, Image(image.pixels, np.zeros_like(image.alpha)))
    assert not result.alpha.any()
    assert not result.pixels.any()
