"""MATLAB's imresize: against files MATLAB made, against a transcription of its formula, numpy against torch."""

import math

import numpy as np
import pytest
import torch

from enlcn.data.image_io import load_image
from enlcn.data.resize import KERNELS, imresize, imresize_torch
from enlcn.errors import UserError

RNG = np.random.default_rng(7)


def both(image: np.ndarray, *args, **options) -> np.ndarray:
    """Resize (H, W, C) with either version; they must agree to the last bit."""
    by_numpy = imresize(image, *args, **options)
    by_torch = imresize_torch(torch.from_numpy(image).permute(2, 0, 1), *args, **options)
    assert by_numpy.dtype == image.dtype
    assert np.array_equal(by_numpy, by_torch.permute(1, 2, 0).numpy())
    return by_numpy


@pytest.mark.parametrize("scale", [2, 4])
@pytest.mark.parametrize("name", ["Set5", "Set14", "B100"])
def test_zero_pixels_differ_from_matlabs_files(name, scale, data_dir):
    root = data_dir / "benchmarks" / name
    paths = sorted((root / "HR").glob("*.png"))
    assert len(paths) == {"Set5": 5, "Set14": 14, "B100": 100}[name]
    differing = 0
    for path in paths:
        hr = load_image(path).pixels
        height, width = (side - side % scale for side in hr.shape[:2])
        expected = load_image(root / "LR_bicubic" / f"X{scale}" / f"{path.stem}x{scale}.png").pixels
        lr = both(hr[:height, :width], 1 / scale, border="clamp")
        differing += np.count_nonzero(lr != expected)
    assert differing == 0


def test_mirror_differs_from_clamp_at_the_border_only():
    image = RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    mirrored, clamped = imresize(image, 0.25), imresize(image, 0.25, border="clamp")
    assert not np.array_equal(mirrored, clamped)
    assert np.array_equal(mirrored[2:-2, 2:-2], clamped[2:-2, 2:-2])


def one_pass_by_formula(line: list[float], scale: float, out_length: int, border: str, antialias: bool) -> list[float]:
    """MATLAB's contributions, pixel by pixel, for a cubic kernel."""

    def cubic(x: float) -> float:
        x = abs(x)
        if x <= 1:
            return 1.5 * x**3 - 2.5 * x**2 + 1
        return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x <= 2 else 0.0

    stretch = min(scale, 1.0) if antialias else 1.0
    result = []
    for i in range(1, out_length + 1):
        centre = i / scale + 0.5 * (1 - 1 / scale)
        first, last = math.floor(centre - 2 / stretch) - 1, math.ceil(centre + 2 / stretch) + 1
        weights = {j: cubic(stretch * (centre - j)) for j in range(first, last + 1)}
        total = 0.0
        for j, weight in weights.items():
            k = j - 1
            if border == "clamp":
                k = min(max(k, 0), len(line) - 1)
            else:
                ring = [*range(len(line)), *reversed(range(len(line)))]
                k = ring[k % len(ring)]
            total += weight / sum(weights.values()) * line[k]
        result.append(total)
    return result


@pytest.mark.parametrize("border", ["mirror", "clamp"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("scale", [0.25, 1 / 3, 0.37, 0.9, 1.0, 1.5, 2, 3, 4.3])
def test_float_agrees_with_the_formula(scale, border, antialias):
    image = RNG.random((13, 10, 2))
    height, width = math.ceil(scale * 13), math.ceil(scale * 10)
    rows = np.empty((height, 10, 2))
    for x in range(10):
        for c in range(2):
            rows[:, x, c] = one_pass_by_formula(image[:, x, c].tolist(), scale, height, border, antialias)
    expected = np.empty((height, width, 2))
    for y in range(height):
        for c in range(2):
            expected[y, :, c] = one_pass_by_formula(rows[y, :, c].tolist(), scale, width, border, antialias)
    assert np.allclose(both(image, scale, border=border, antialias=antialias), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_numpy_and_torch_agree_to_the_bit(kernel, dtype):
    for border in ("mirror", "clamp"):
        for scale in (0.1, 1 / 3, 0.5, 0.77, 2, 3, 4.5):
            image = RNG.integers(0, np.iinfo(np.uint8).max, (37, 53, 3)).astype(dtype)
            resized = both(image, scale, kernel=kernel, border=border)
            assert resized.shape == (math.ceil(37 * scale), math.ceil(53 * scale), 3)
    for size in ((1, 1), (5, 80), (80, 5), (37, 20)):
        assert both(image, size=size, kernel=kernel).shape[:2] == size


def test_integers_are_rounded_after_each_pass_and_halves_go_up():
    tie = np.array([[0, 1], [0, 1]], np.uint8)[..., None]
    assert imresize(tie, size=(2, 1), kernel="box").tolist() == [[[1]], [[1]]]
    # rows first: (1 + 0) / 2 rounds to 1, then (1 + 0) / 2 rounds to 1; in one go 1/4 would be 0
    corner = np.array([[1, 0], [0, 0]], np.uint8)[..., None]
    assert imresize(corner, size=(1, 1), kernel="box").item() == 1


def test_the_dimension_that_shrinks_most_goes_first():
    image = RNG.integers(0, 256, (40, 40, 1), dtype=np.uint8)
    rows_then_columns = imresize(imresize(image, size=(10, 40)), size=(10, 20))
    columns_then_rows = imresize(imresize(image, size=(40, 10)), size=(20, 10))
    assert np.array_equal(imresize(image, size=(10, 20)), rows_then_columns)
    assert np.array_equal(imresize(image, size=(20, 10)), columns_then_rows)
    assert not np.array_equal(imresize(imresize(image, size=(40, 20)), size=(10, 20)), rows_then_columns)


def test_overshoot_is_clamped():
    edge = np.zeros((8, 8, 1), np.uint8)
    edge[:, 4:] = 255
    enlarged = imresize(edge, 4)
    assert (enlarged.min(), enlarged.max()) == (0, 255)
    assert imresize(edge.astype(np.float64), 4).max() > 255


def test_constant_images_stay_constant_down_to_one_pixel():
    for value in (0, 77, 255):
        for height, width in ((1, 1), (1, 9), (3, 2)):
            image = np.full((height, width, 3), value, np.uint8)
            for scale in (0.25, 0.5, 2, 3):
                for border in ("mirror", "clamp"):
                    assert set(both(image, scale, border=border).flat) == {value}


def test_batches_and_grey_planes():
    images = RNG.integers(0, 256, (2, 3, 3, 20, 28), dtype=np.uint8)
    resized = imresize_torch(torch.from_numpy(images), 0.5)
    assert resized.shape == (2, 3, 3, 10, 14)
    assert np.array_equal(resized[1, 2, 0].numpy(), imresize(images[1, 2, 0], 0.5))


def test_gradients_flow():
    images = torch.rand(1, 1, 6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: imresize_torch(x, 0.5), images)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_agrees_to_the_bit():
    images = torch.randint(0, 256, (8, 3, 97, 131), dtype=torch.uint8)
    for scale in (0.25, 1 / 3, 0.5, 2, 3, 4):
        assert torch.equal(imresize_torch(images.cuda(), scale).cpu(), imresize_torch(images, scale))


def test_bad_requests_are_named():
    image = np.zeros((4, 4, 3), np.uint8)
    for options, message in (
        ({}, "either a scale or a size"),
        ({"scale": 2.0, "size": (8, 8)}, "either a scale or a size"),
        ({"scale": 0.0}, "must be positive"),
        ({"size": (0, 4)}, "cannot resize"),
        ({"scale": 2.0, "kernel": "sinc"}, "choose from bicubic"),
        ({"scale": 2.0, "border": "wrap"}, "choose from mirror"),
    ):
        with pytest.raises(UserError, match=message):
            imresize(image, **options)
