"""Test sets are found in every usual layout, and nothing missing goes unnoticed."""

from pathlib import Path

import numpy as np
import pytest

from enlcn.data.image_io import Image, save_image
from enlcn.data.resize import imresize
from enlcn.data.testsets import find_testsets, load_pair
from enlcn.errors import UserError

RNG = np.random.default_rng(5)


def write(path: Path, height: int = 20, width: int = 24, channels: int = 3, dtype=np.uint8) -> np.ndarray:
    pixels = RNG.integers(0, np.iinfo(dtype).max, (height, width, channels), dtype)
    save_image(Image(pixels), path)
    return pixels


def only_set(source, scale=4):
    (found,) = find_testsets(source, scale)
    return found


@pytest.mark.parametrize(
    ("hr", "lr", "name"),
    [
        ("mine/HR/{}.png", "mine/LR_bicubic/X4/{}x4.png", "mine"),
        ("mine/GTmod12/{}.png", "mine/LRbicx4/{}.png", "mine"),
        ("mine/image_SRF_4/img_{}_SRF_4_HR.png", "mine/image_SRF_4/img_{}_SRF_4_LR.png", "mine"),
        ("mine/img_{}_SRF_4_HR.png", "mine/img_{}_SRF_4_LR.png", "mine"),
    ],
)
def test_layouts_with_lr_files(hr, lr, name, tmp_path):
    lr_pixels = {}
    for stem in ("002", "001"):
        write(tmp_path / hr.format(stem))
        lr_pixels[stem] = write(tmp_path / lr.format(stem), 5, 6)
    found = only_set(tmp_path / "mine")
    assert found.name == name
    assert found.has_lr_files
    assert [pair.name[-3:] for pair in found.pairs] == ["001", "002"]
    first_lr, first_hr = load_pair(found.pairs[0], 4)
    assert np.array_equal(first_lr[0].permute(1, 2, 0).numpy(), lr_pixels["001"])
    assert first_hr.shape == (1, 3, 20, 24)
    assert only_set((tmp_path / hr).parent) == found
    if "SRF" not in hr:  # the other scale has no LR files, so they are made
        assert not only_set(tmp_path / "mine", 2).has_lr_files


def test_names_that_differ_in_their_ending_alone_are_refused(tmp_path):
    for name in ("a.png", "b.png", "a.tif"):
        write(tmp_path / "mine" / name)
    with pytest.raises(UserError, match=r"a\.tif: a\.png has the same name but for its ending; rename one of them"):
        find_testsets(tmp_path / "mine", 4)


def test_div2k_names(tmp_path):
    root = tmp_path / "DIV2K"
    pixels = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    for index in range(801, 901):
        save_image(Image(pixels), root / "DIV2K_valid_HR" / f"{index:04}.png")
        save_image(Image(pixels[::2, ::2]), root / "DIV2K_valid_LR_bicubic" / "X2" / f"{index:04}x2.png")
    found = only_set(root, 2)
    assert (found.name, len(found.pairs), found.has_lr_files) == ("DIV2K_valid", 100, True)
    assert found.pairs[0].lr.name == "0801x2.png"
    assert only_set(root / "DIV2K_valid_HR", 2) == found


def test_a_folder_of_hr_images_is_enough(tmp_path):
    pixels = write(tmp_path / "photos" / "box2.png", 23, 27)
    (tmp_path / "photos" / "notes.txt").write_text("not an image")
    found = only_set(tmp_path / "photos")
    assert [pair.name for pair in found.pairs] == ["box2"]
    assert not found.has_lr_files
    lr, hr = load_pair(found.pairs[0], 4, border="clamp")
    assert np.array_equal(hr[0].permute(1, 2, 0).numpy(), pixels[:20, :24])
    assert np.array_equal(lr[0].permute(1, 2, 0).numpy(), imresize(pixels[:20, :24], 0.25, border="clamp"))


def test_grey_and_16_bit_images_become_8_bit_rgb(tmp_path):
    grey = write(tmp_path / "photos" / "grey.png", channels=1)
    deep = write(tmp_path / "photos" / "deep.png", dtype=np.uint16)
    pairs = {pair.name: pair for pair in only_set(tmp_path / "photos").pairs}
    _, hr = load_pair(pairs["grey"], 4)
    assert np.array_equal(hr[0].permute(1, 2, 0).numpy(), grey.repeat(3, axis=2))
    _, hr = load_pair(pairs["deep"], 4)
    assert np.array_equal(hr[0].permute(1, 2, 0).numpy(), np.round(deep / 257).astype(np.uint8))


def test_known_sets_are_complete(data_dir, monkeypatch):
    for name, count in (("Set5", 5), ("Set14", 14), ("B100", 100)):
        for scale in (2, 4):
            found = only_set(data_dir / "benchmarks" / name, scale)
            assert (found.name, len(found.pairs), found.has_lr_files) == (name, count, True)
    monkeypatch.setenv("ENLCN_DATA", str(data_dir))
    assert only_set("set5") == only_set(data_dir / "benchmarks" / "Set5")
    assert only_set("BSD100").name == "B100"
    assert [found.name for found in find_testsets(data_dir / "benchmarks", 4)] == ["Set5", "Set14", "B100"]


def test_missing_and_incomplete_sets_are_loud(tmp_path, monkeypatch):
    monkeypatch.setenv("ENLCN_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"Urban100: test set not found; looked in .*data.benchmarks; give its folder"):
        find_testsets("Urban100", 4)
    with pytest.raises(UserError, match="nowhere: no such folder"):
        find_testsets("nowhere", 4)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"empty: no test images found; looked for \.png.* files there, in HR"):
        find_testsets("empty", 4)
    for index in range(4):
        write(tmp_path / "Set5" / "HR" / f"{index}.png")
    with pytest.raises(UserError, match="HR: Set5 must have 5 images, there are 4"):
        find_testsets("Set5", 4)
    write(tmp_path / "Set5" / "HR" / "4.png")
    write(tmp_path / "Set5" / "LR_bicubic" / "X4" / "0x4.png", 5, 6)
    with pytest.raises(UserError, match="X4: 4 of 5 LR images are missing, first that of 1"):
        find_testsets("Set5", 4)
    (tmp_path / "parent" / "Set14").mkdir(parents=True)
    with pytest.raises(UserError, match="no test images found"):
        find_testsets("parent", 4)
    write(tmp_path / "srf" / "a_SRF_2_HR.png")
    with pytest.raises(UserError, match="no images of scale 4"):
        find_testsets("srf", 4)


def test_pairs_that_do_not_fit_are_named(tmp_path):
    write(tmp_path / "set" / "HR" / "a.png")
    write(tmp_path / "set" / "LR_bicubic" / "X4" / "ax4.png", 5, 5)
    with pytest.raises(UserError, match=r"ax4\.png: 5x5 pixels, expected 6x5 for scale 4"):
        load_pair(only_set(tmp_path / "set").pairs[0], 4)
    write(tmp_path / "tiny" / "dot.png", 1, 1)
    with pytest.raises(UserError, match=r"dot\.png: 1x1 pixels are too few for scale 4"):
        load_pair(only_set(tmp_path / "tiny").pairs[0], 4)
