"""The value range: every integer comes back, halves go up, what lies outside is clamped."""

import numpy as np
import pytest
import torch

from enlcn.data.image_io import (
    Image,
    alpha_to_tensor,
    encode_image,
    from_tensor,
    load_image,
    to_float,
    to_tensor,
    to_uint8,
    to_uint16,
)


def test_every_integer_survives_the_way_to_float_and_back():
    bytes_ = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_uint8(to_float(bytes_)), bytes_)
    words = torch.from_numpy(np.arange(65536, dtype=np.uint16))
    assert np.array_equal(to_uint16(to_float(words)).numpy(), words.numpy())
    assert to_float(bytes_).max() == 1
    assert to_float(words).min() == 0


def test_rounding_and_clamping():
    steps = torch.tensor([-1.0, -0.001, 0.5 / 255, 1.5 / 255, 2.5 / 255, 1.0, 7.0], dtype=torch.float64)
    assert to_uint8(steps).tolist() == [0, 0, 1, 2, 3, 255, 255]
    assert to_uint16(torch.tensor([-1.0, 0.5, 2.0])).numpy().tolist() == [0, 32768, 65535]


def test_half_precision_is_widened_first():
    exact = to_float(torch.arange(256, dtype=torch.uint8))
    for dtype in (torch.float16, torch.bfloat16):
        narrow = exact.to(dtype)
        assert torch.equal(to_uint8(narrow), to_uint8(narrow.double()))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_survive_the_way_to_tensors_and_back(dtype, channels):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, np.iinfo(dtype).max, (5, 7, channels), dtype, endpoint=True)
    alpha = rng.integers(0, np.iinfo(dtype).max, (5, 7), dtype, endpoint=True)
    image = Image(pixels, alpha, icc=b"profile", exif=b"exif")
    values = to_tensor(image)
    assert values.shape == (1, channels, 5, 7)
    assert values.dtype == torch.float32
    assert float(values[0, 0, 2, 3]) == pytest.approx(pixels[2, 3, 0] / np.iinfo(dtype).max)
    back = from_tensor(values, image, alpha_to_tensor(image))
    assert np.array_equal(back.pixels, pixels)
    assert np.array_equal(back.alpha, alpha)
    assert (back.icc, back.exif) == (b"profile", b"exif")


def test_grey_stays_grey_after_a_network_that_returns_rgb():
    grey = Image(np.full((2, 2, 1), 10, np.uint8))
    result = from_tensor(torch.full((1, 3, 4, 4), 0.5), grey)
    assert result.pixels.shape == (4, 4, 1)
    assert alpha_to_tensor(grey) is None
    assert to_tensor(grey.as_rgb()).shape == (1, 3, 2, 2)


def test_jpeg_of_a_16_bit_image_is_rounded_not_cut(caplog):
    pixels = np.full((16, 16, 1), 257 * 100 + 200, np.uint16)  # 100.78 in 8 bits
    loaded = load_image(encode_image(Image(pixels), "jpeg", quality=100, name="deep.jpg"))
    assert np.unique(loaded.pixels).tolist() == [101]
    assert "deep.jpg: JPEG holds 8 bits a channel; rounded from 16" in caplog.text
