import errno
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from enlcn.data import shards
from enlcn.data.image import Image as Picture
from enlcn.data.image_formats import SUFFIXES
from enlcn.data.image_io import save_image
from enlcn.data.resize import imresize
from enlcn.data.shards import decode, find_images, load_packed
from enlcn.errors import UserError
from enlcn.files import new_folder


def noise(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def write(path: Path, pixels=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise(20, 30) if pixels is None else pixels).save(path, **options)


def write_tar(path: Path, names, size=(24, 36)):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for seed, name in enumerate(names):
            data = io.BytesIO()
            Image.fromarray(noise(*size, seed)).save(data, Path(name).suffix[1:].upper())
            info = tarfile.TarInfo(name)
            info.size = data.tell()
            tar.addfile(info, io.BytesIO(data.getvalue()))


def names(files):
    return [file.name for file in files]


def image_of(packed, index):
    """(lr, hr) as arrays, cut out of the flat buffers."""
    height, width, offset = (int(t[index]) for t in (packed.heights, packed.widths, packed.offsets))
    s = packed.scale
    lr = packed.lr[offset : offset + height * width].view(height, width, 3)
    hr = packed.hr[s * s * offset : s * s * (offset + height * width)].view(s * height, s * width, 3)
    return lr.numpy(), hr.numpy()


def test_folders_are_walked_and_what_is_no_image_is_left(tmp_path):
    for name in ("b.png", "deep/er/a.JPG", "deep/c.webp", "x.avif"):
        write(tmp_path / name)
    (tmp_path / "sources.csv").write_text("no image")
    write(tmp_path / ".hidden" / "d.png")
    assert names(find_images(tmp_path)) == ["b.png", "deep/c.webp", "deep/er/a.JPG", "x.avif"]


def test_div2k_layout(tmp_path):
    write(tmp_path / "DIV2K_train_HR" / "0001.png")
    write(tmp_path / "DIV2K_train_LR_bicubic" / "X2" / "0001x2.png")
    write(tmp_path / "DIV2K_valid_HR" / "0801.png")
    write(tmp_path / "DIV2K_valid_LR_bicubic" / "X2" / "0801x2.png")
    assert names(find_images(tmp_path)) == ["DIV2K_train_HR/0001.png"]
    assert names(find_images(tmp_path, "held-out")) == ["DIV2K_valid_HR/0801.png"]
    assert names(find_images(tmp_path / "DIV2K_valid_HR")) == ["0801.png"]


def test_shards_and_the_held_out_one(tmp_path):
    write_tar(tmp_path / "train-00.tar", ["a.png", "deep/b.jpeg", "valley.png"])
    write_tar(tmp_path / "train-01.tar", ["c.webp"])
    write_tar(tmp_path / "val.tar", ["d.png"])
    expected = ["train-00.tar/a.png", "train-00.tar/deep/b.jpeg", "train-00.tar/valley.png", "train-01.tar/c.webp"]
    assert names(find_images(tmp_path)) == expected
    assert names(find_images(tmp_path, "held-out")) == ["val.tar/d.png"]
    assert names(find_images(tmp_path / "val.tar")) == ["val.tar/d.png"]
    assert len(find_images(tmp_path, "all")) == 5


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_pixels_are_the_cropped_file_and_its_matlab_resize(tmp_path, scale):
    originals = [noise(25, 31, 1), noise(50, 40, 2)]
    for index, pixels in enumerate(originals):
        write(tmp_path / "set" / f"{index}.png", pixels)
    packed = load_packed(find_images(tmp_path / "set"), scale, tmp_path / "cache", workers=2)
    for index, pixels in enumerate(originals):
        height, width = (length // scale * scale for length in pixels.shape[:2])
        lr, hr = image_of(packed, index)
        assert np.array_equal(hr, pixels[:height, :width])
        assert np.array_equal(lr, imresize(pixels[:height, :width], 1 / scale))


def test_tar_members_and_every_format_decode(tmp_path):
    members = ["a.png", "b.jpeg", "c.webp", "d.avif"]
    write_tar(tmp_path / "set.tar", members)
    packed = load_packed(find_images(tmp_path / "set.tar"), 2, tmp_path / "cache")
    assert packed.names == tuple(f"set.tar/{name}" for name in members)
    assert np.array_equal(image_of(packed, 0)[1], noise(24, 36, 0))
    assert not packed.skipped


def test_small_images_beside_large_ones_and_lone_files_are_not_taken(tmp_path):
    for place in ("hr", "lr"):
        write(tmp_path / place / "a.png")
    assert [file.name for file in find_images(tmp_path)] == ["hr/a.png"]
    with pytest.raises(UserError, match=r"a\.png: is one image; give the folder that holds it"):
        find_images(tmp_path / "hr" / "a.png")


@pytest.mark.parametrize("name", ["grey.png", "grey.tif", "colour.tif", "colour.png"])
def test_16_bits_become_8(tmp_path, name):
    values = np.linspace(0, 65535, 48 * 40).astype(np.uint16).reshape(48, 40, 1)
    save_image(Picture(values if name.startswith("grey") else values.repeat(3, axis=2)), tmp_path / name)
    (file,) = find_images(tmp_path)
    assert np.abs(decode(file).astype(int) - values / 257).max() <= 1  # of colours Pillow drops the lower byte


def test_every_format_that_is_read_is_trained_on(tmp_path):
    for suffix in SUFFIXES:
        write(tmp_path / f"a{suffix}")
    assert {Path(file.name).suffix for file in find_images(tmp_path)} == set(SUFFIXES)
    assert all(decode(file).shape == (20, 30, 3) for file in find_images(tmp_path))


def test_the_cache_is_where_the_variable_says(tmp_path, monkeypatch):
    monkeypatch.setenv("ENLCN_CACHE", str(tmp_path / "cache"))
    assert shards.default_cache() == tmp_path / "cache" / "training"


def test_bad_files_are_named_and_left_out(tmp_path, caplog):
    write(tmp_path / "set" / "good.png")
    (tmp_path / "set" / "bad.png").write_bytes(b"no image at all")
    truncated = (tmp_path / "set" / "good.png").read_bytes()[:300]
    (tmp_path / "set" / "cut.png").write_bytes(truncated)
    write(tmp_path / "set" / "dot.png", noise(1, 9))
    packed = load_packed(find_images(tmp_path / "set"), 2, tmp_path / "cache")
    assert packed.names == ("good.png",)
    assert sorted(reason.split(":")[0] for reason in packed.skipped) == ["bad.png", "cut.png", "dot.png"]
    assert "skipped bad.png" in caplog.text


def test_the_second_time_comes_from_the_cache(tmp_path, monkeypatch):
    write(tmp_path / "set" / "a.png")
    files = find_images(tmp_path / "set")
    seen = []
    first = load_packed(files, 2, tmp_path / "cache", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 1)]
    monkeypatch.setattr(shards, "_decode_pair", lambda *_: pytest.fail("decoded again"))
    second = load_packed(files, 2, tmp_path / "cache")
    assert torch.equal(first.hr, second.hr)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.key]


def test_a_changed_file_and_a_damaged_cache_are_decoded_again(tmp_path):
    write(tmp_path / "set" / "a.png", noise(20, 30, 1))
    first = load_packed(find_images(tmp_path / "set"), 2, tmp_path / "cache")
    (tmp_path / "cache" / first.key / "hr").write_bytes(b"short")
    repaired = load_packed(find_images(tmp_path / "set"), 2, tmp_path / "cache")
    assert np.array_equal(image_of(repaired, 0)[1], noise(20, 30, 1))
    write(tmp_path / "set" / "a.png", noise(20, 30, 2))
    changed = load_packed(find_images(tmp_path / "set"), 2, tmp_path / "cache")
    assert changed.key != first.key
    assert np.array_equal(image_of(changed, 0)[1], noise(20, 30, 2))


@pytest.mark.parametrize("damaged", [False, True])
def test_a_cache_that_cannot_be_written_again_is_told(tmp_path, monkeypatch, damaged):
    """Unless another process has written it meanwhile."""
    write(tmp_path / "set" / "a.png")
    files = find_images(tmp_path / "set")
    first = load_packed(files, 2, tmp_path / "cache")
    pixels = (tmp_path / "cache" / first.key / "hr").read_bytes()
    (tmp_path / "cache" / first.key / "hr").write_bytes(b"short")

    def full(*_):
        if not damaged:
            (tmp_path / "cache" / first.key / "hr").write_bytes(pixels)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shards, "_write_pixels", full)
    if damaged:
        with pytest.raises(UserError, match=r"the cache cannot be written \(No space left on device\)"):
            load_packed(files, 2, tmp_path / "cache")
    else:
        assert torch.equal(load_packed(files, 2, tmp_path / "cache").lr, first.lr)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.key]


def test_what_another_process_has_written_meanwhile_stays(tmp_path, monkeypatch):
    write(tmp_path / "set" / "a.png")
    files = find_images(tmp_path / "set")
    decoded, inner = shards._write_pixels, []

    def slow(*arguments):
        if not inner:
            inner.append(True)
            inner.append(load_packed(files, 2, tmp_path / "cache"))
            (tmp_path / "cache" / inner[1].key / "mark").touch()
        return decoded(*arguments)

    monkeypatch.setattr(shards, "_write_pixels", slow)
    packed = load_packed(files, 2, tmp_path / "cache")
    assert torch.equal(packed.hr, inner[1].hr)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [packed.key]
    assert (tmp_path / "cache" / packed.key / "mark").exists()


def test_what_a_killed_process_decoded_is_removed(tmp_path):
    write(tmp_path / "set" / "a.png")
    begin = "import pathlib, sys; from enlcn import files; files.new_folder(pathlib.Path(sys.argv[1]), 'unfinished')"
    subprocess.run([sys.executable, "-c", begin, tmp_path], check=True)
    ours = new_folder(tmp_path, "unfinished")
    (theirs,) = set(tmp_path.glob(".unfinished*")) - {ours}
    (theirs / "hr").write_bytes(b"pixels")
    load_packed(find_images(tmp_path / "set"), 2, tmp_path)
    assert ours.exists()
    assert not theirs.exists()


def test_errors_say_what_is_missing(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        find_images(tmp_path / "absent")
    (tmp_path / "broken.tar").write_bytes(b"x" * 2000)
    with pytest.raises(UserError, match=r"broken\.tar: not a readable"):
        find_images(tmp_path / "broken.tar")
    with pytest.raises(UserError, match="no images to train on"):
        load_packed([], 2, tmp_path / "cache")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "bad.png").write_bytes(b"?")
    with pytest.raises(UserError, match=r"none of the 1 images.*bad\.png"):
        load_packed(find_images(tmp_path / "set"), 2, tmp_path / "cache")
    (tmp_path / "file").write_text("")
    write(tmp_path / "good" / "a.png")
    with pytest.raises(UserError, match="cache cannot be written"):
        load_packed(find_images(tmp_path / "good"), 2, tmp_path / "file" / "cache")


def test_the_real_shards_hold_what_they_should(data_dir):
    files = find_images(data_dir / "train")
    held_out = find_images(data_dir / "train", "held-out")
    assert len(files) == 1176
    assert len(held_out) == 24
    assert shards.decode(held_out[0]).ndim == 3
