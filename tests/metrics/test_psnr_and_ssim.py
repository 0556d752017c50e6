"""PSNR and SSIM against scikit-image and torchmetrics, where the definitions coincide."""

import math

import numpy as np
import pytest
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from torchmetrics.functional.image import (
    peak_signal_noise_ratio as torchmetrics_psnr,
)
from torchmetrics.functional.image import (
    structural_similarity_index_measure as torchmetrics_ssim,
)

from enlcn.errors import UserError
from enlcn.metrics import psnr, rgb_to_y, ssim
from enlcn.metrics.planes import compared_planes

TOLERANCE = 1e-6
SKIMAGE_SSIM = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False, "data_range": 255}


def pairs() -> list[tuple[np.ndarray, np.ndarray]]:
    """A photo and noise, each with mild and strong damage, in odd sizes: (H, W, 3), uint8."""
    from skimage.data import astronaut

    rng = np.random.default_rng(3)
    result = []
    for clean in (astronaut()[100:205, 150:301], rng.integers(0, 256, (23, 31, 3), dtype=np.uint8)):
        for strength in (2, 40):
            damaged = clean + rng.normal(0, strength, clean.shape)
            result.append((damaged.clip(0, 255).round().astype(np.uint8), clean))
    return result


def y_of(image: np.ndarray) -> np.ndarray:
    """Y by MATLAB's formula, in float64."""
    return 16 + (image.astype(np.float64) @ [65.481, 128.553, 24.966]) / 255


@pytest.mark.parametrize("pair", pairs())
@pytest.mark.parametrize("shave", [0, 4])
def test_y_agrees_with_scikit_image(pair, shave):
    sr, hr = (y_of(image)[shave : image.shape[0] - shave, shave : image.shape[1] - shave] for image in pair)
    assert psnr(*pair, shave=shave) == pytest.approx(peak_signal_noise_ratio(hr, sr, data_range=255), abs=TOLERANCE)
    oracle = structural_similarity(sr, hr, **SKIMAGE_SSIM)
    assert ssim(*pair, shave=shave) == pytest.approx(oracle, abs=TOLERANCE)


@pytest.mark.parametrize("pair", pairs())
def test_rgb_agrees_with_scikit_image(pair):
    assert psnr(*pair, channels="rgb") == pytest.approx(peak_signal_noise_ratio(*pair, data_range=255), abs=TOLERANCE)
    oracle = structural_similarity(*pair, channel_axis=2, **SKIMAGE_SSIM)
    assert ssim(*pair, channels="rgb") == pytest.approx(oracle, abs=TOLERANCE)


@pytest.mark.parametrize("pair", pairs())
def test_both_agree_with_torchmetrics(pair):
    sr, hr = (torch.from_numpy(image).permute(2, 0, 1)[None].double() for image in pair)
    # its log(10) is a float32, hence relative
    assert psnr(*pair, channels="rgb") == pytest.approx(float(torchmetrics_psnr(sr, hr, 255.0)), rel=TOLERANCE)
    for channels, a, b in (("rgb", sr, hr), ("y", rgb_to_y(sr), rgb_to_y(hr))):
        _, by_pixel = torchmetrics_ssim(a, b, sigma=1.5, data_range=255.0, return_full_image=True)
        whole_windows = by_pixel[..., 5:-5, 5:-5]  # elsewhere it pads
        assert ssim(*pair, channels=channels) == pytest.approx(float(whole_windows.mean()), abs=TOLERANCE)


def test_arrays_and_tensors_give_the_same():
    sr, hr = pairs()[0]
    tensors = [torch.from_numpy(image).permute(2, 0, 1) for image in (sr, hr)]
    batched = [tensor[None] for tensor in tensors]
    for metric in (psnr, ssim):
        for channels in ("y", "rgb"):
            expected = metric(sr, hr, shave=2, channels=channels)
            assert metric(*tensors, shave=2, channels=channels) == expected
            assert metric(*batched, shave=2, channels=channels) == expected


def test_luma_range_and_grey():
    assert float(rgb_to_y(torch.zeros(3, 1, 1))) == 16
    assert float(rgb_to_y(torch.full((3, 1, 1), 255.0))) == pytest.approx(235)
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    colour = np.stack([grey] * 3, axis=-1)
    assert torch.equal(compared_planes(grey, 0, "y"), compared_planes(colour, 0, "y"))
    assert np.allclose(compared_planes(colour, 0, "y")[0].numpy(), y_of(colour))


def test_equal_images():
    image = pairs()[0][0]
    assert psnr(image, image) == math.inf
    assert ssim(image, image) == pytest.approx(1, abs=1e-12)


def test_what_cannot_be_compared_is_named():
    image = np.zeros((20, 20, 3), np.uint8)
    with pytest.raises(UserError, match="shapes"):
        psnr(image, image[:10])
    with pytest.raises(UserError, match="cannot shave 10 pixels off each side of a 20x20"):
        psnr(image, image, shave=10)
    with pytest.raises(UserError, match="at least 11x11 pixels after shaving 5, there are 10x10"):
        ssim(image, image, shave=5)
    with pytest.raises(UserError, match="choose from y, rgb"):
        psnr(image, image, channels="hsv")
    with pytest.raises(ValueError, match="one grey or RGB image"):
        psnr(torch.zeros(2, 3, 20, 20), torch.zeros(2, 3, 20, 20))
