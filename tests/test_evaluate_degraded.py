"""Evaluation on inputs that are not clean."""

import pytest
import torch

from enlcn.data.image_io import Image, save_image
from enlcn.errors import UserError
from enlcn.evaluate import evaluate
from enlcn.evaluate.degraded_input import degraded


@pytest.fixture
def photos(tmp_path):
    from skimage.data import astronaut

    save_image(Image(astronaut()[:120, :140]), tmp_path / "photos" / "0.png")
    return tmp_path / "photos"


def test_noise_is_the_same_each_time_and_as_strong_as_asked_for(photos):
    first, again, stronger, clean = (evaluate(["bicubic"], [photos], 2, noise=noise) for noise in (5, 5, 9, 0))
    assert [image.score.psnr_y for image in first.images] == [image.score.psnr_y for image in again.images]
    means = [results.mean("bicubic", "photos").psnr_y for results in (clean, first, stronger)]
    assert means == sorted(means, reverse=True)
    lr = torch.full((1, 3, 200, 200), 100, dtype=torch.uint8)
    assert (degraded(lr, noise=8).double() - 100).std().item() == pytest.approx(8, rel=0.02)
    assert torch.equal(degraded(lr), lr)


def test_noise_comes_before_jpeg():
    lr = torch.full((1, 3, 64, 64), 100, dtype=torch.uint8)
    both = degraded(lr, noise=10, jpeg_quality=20)
    assert torch.equal(both, degraded(degraded(lr, noise=10), jpeg_quality=20))
    assert both.double().std() < 10, "compression takes noise away"


def test_bad_values_are_told(photos):
    for bad in (101, 0, 75.5):
        with pytest.raises(
            UserError, match=f"jpeg_quality is {bad}; it must be a whole number from 1 to 100, or left out"
        ):
            evaluate(["bicubic"], [photos], 2, jpeg_quality=bad)
    with pytest.raises(UserError, match="an LR image: JPEG holds at most 65,500 pixels a side"):
        degraded(torch.zeros(1, 3, 1, 65_501, dtype=torch.uint8), jpeg_quality=50)
    with pytest.raises(UserError, match="noise is -1; it must lie in 0 to 255, in grey levels"):
        evaluate(["bicubic"], [photos], 2, noise=-1)
