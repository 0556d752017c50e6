from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from enlcn.data.crops import ImageTable, Sampling, choose_crops
from enlcn.data.image_io import to_float
from enlcn.data.patches import DevicePatches, HostPatches, detail, fits_on, open_patches, read_lr, read_rescaled
from enlcn.data.rescaling import span
from enlcn.data.resize import imresize
from enlcn.data.shards import PackedImages, crop_to_multiple
from enlcn.errors import UserError

CPU = torch.device("cpu")
SIZES = [(9, 14), (20, 11), (16, 16)]


def make_set(scale=2, sizes=SIZES):
    """HR and LR whose bytes say where they are: (image, row, column), HR at the LR pixel it belongs to."""
    lr, hr = [], []
    for index, (height, width) in enumerate(sizes):
        rows, columns = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
        small = np.stack([np.full_like(rows, index), rows, columns], -1).astype(np.uint8)
        lr.append(small.reshape(-1, 3))
        hr.append(small.repeat(scale, 0).repeat(scale, 1).reshape(-1, 3))
    heights, widths = (torch.tensor(column) for column in zip(*sizes, strict=True))
    return PackedImages(
        scale=scale,
        lr=torch.from_numpy(np.concatenate(lr)),
        hr=torch.from_numpy(np.concatenate(hr)),
        heights=heights,
        widths=widths,
        offsets=(heights * widths).cumsum(0) - heights * widths,
        names=tuple(map(str, range(len(sizes)))),
        skipped=(),
        key="",
    )


def draw(sampling, step=0, images=None):
    lr, hr = DevicePatches(images or make_set(), sampling, CPU).draw(torch.tensor(step))
    return (lr * 255).round().int(), (hr * 255).round().int()


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_hr_lies_exactly_over_lr(scale):
    lr, hr = draw(Sampling(5, 256), images=make_set(scale))
    assert hr.shape == (256, 3, 5 * scale, 5 * scale)
    assert torch.equal(hr, lr.repeat_interleave(scale, 2).repeat_interleave(scale, 3))


def test_crops_are_connected_squares_in_all_eight_orientations():
    lr, _ = draw(Sampling(4, 512))
    seen = set()
    for _, rows, columns in lr:
        down = (int(rows[1, 0] - rows[0, 0]), int(columns[1, 0] - columns[0, 0]))
        right = (int(rows[0, 1] - rows[0, 0]), int(columns[0, 1] - columns[0, 0]))
        seen.add((down, right))
        i, j = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
        assert torch.equal(rows, rows[0, 0] + i * down[0] + j * right[0])
        assert torch.equal(columns, columns[0, 0] + i * down[1] + j * right[1])
    assert len(seen) == 8
    assert all({abs(a) + abs(b) for a, b in pair} == {1} for pair in seen)


def test_without_augmentation_nothing_is_turned():
    lr, _ = draw(Sampling(4, 64, augment=False))
    assert (lr[:, 1, 1:] - lr[:, 1, :-1] == 1).all()
    assert (lr[:, 2, :, 1:] - lr[:, 2, :, :-1] == 1).all()


def test_images_are_drawn_by_area_and_positions_evenly():
    images, sampling = make_set(sizes=[(8, 8), (32, 32)]), Sampling(4, 40_000)
    crops = choose_crops(ImageTable.of(images, sampling, CPU), sampling, torch.tensor(0))
    share = (crops.image == 1).double().mean().item()
    expected = 1024 / (1024 + 64)
    assert share == pytest.approx(expected, abs=4 * (expected * (1 - expected) / 40_000) ** 0.5)
    tops = torch.bincount(crops.top[crops.image == 1] // 2, minlength=29)
    assert not (crops.top % 2).any()
    assert len(tops) == 29
    assert tops.min() > 0.8 * tops.double().mean()


def test_images_may_be_drawn_alike():
    images, sampling = make_set(sizes=[(8, 8), (32, 32), (8, 9)]), Sampling(4, 40_000, by_area=False)
    crops = choose_crops(ImageTable.of(images, sampling, CPU), sampling, torch.tensor(0))
    shares = torch.bincount(crops.image, minlength=3).double() / 40_000
    assert torch.allclose(shares, torch.full((3,), 1 / 3, dtype=torch.float64), atol=4 * (2 / 9 / 40_000) ** 0.5)


def test_the_draw_is_a_function_of_seed_and_step_alone():
    first = draw(Sampling(6, 16, seed=5), step=123)
    draw(Sampling(6, 16, seed=5), step=7)
    again = draw(Sampling(6, 16, seed=5), step=123)
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[1], draw(Sampling(6, 16, seed=5), step=124)[1])
    assert not torch.equal(first[1], draw(Sampling(6, 16, seed=6), step=123)[1])


def test_processes_share_the_global_batch():
    whole = draw(Sampling(6, 12), step=9)
    parts = [draw(Sampling(6, 12, rank=rank, world_size=3), step=9) for rank in range(3)]
    for position in (0, 1):
        assert torch.equal(whole[position], torch.cat([part[position] for part in parts]))
    with pytest.raises(UserError, match="12 cannot be shared evenly by 5"):
        Sampling(6, 12, world_size=5)


def test_host_memory_gives_the_same_batches():
    sampling = Sampling(6, 8, seed=1)
    on_device, on_host = DevicePatches(make_set(), sampling, CPU), HostPatches(make_set(), sampling, CPU)
    for step in (0, 1, 2, 50, 51, 3):
        on_host.prepare(step)
        for ours, theirs in zip(on_host.draw(torch.tensor(step)), on_device.draw(torch.tensor(step)), strict=True):
            assert torch.equal(ours, theirs)


def noise_that_grows():
    """One wide picture: flat at the left, noisier towards the right."""
    noise = np.random.default_rng(0).integers(-100, 100, (12, 400, 3)) * np.linspace(0, 1, 400)[:, None]
    images = make_set(sizes=[(12, 400)])
    lr = torch.from_numpy((128 + noise).astype(np.uint8))
    hr = lr.repeat_interleave(2, 0).repeat_interleave(2, 1)
    return replace(images, lr=lr.reshape(-1, 3), hr=hr.reshape(-1, 3))


def test_of_several_candidates_the_most_detailed_is_taken():
    images, sampling = noise_that_grows(), Sampling(6, 16, candidates=3, seed=2)
    all_lr, all_hr = draw(replace(sampling, batch_size=48, candidates=1), step=5, images=images)
    best = detail(all_lr).view(16, 3).argmax(1) + 3 * torch.arange(16)
    lr, hr = draw(sampling, step=5, images=images)
    assert torch.equal(lr, all_lr[best])
    assert torch.equal(hr, all_hr[best])
    assert detail(lr).mean() > 1.2 * detail(all_lr).mean()
    parts = [draw(replace(sampling, rank=rank, world_size=2), step=5, images=images) for rank in range(2)]
    assert torch.equal(hr, torch.cat([part[1] for part in parts]))
    on_host = HostPatches(images, sampling, CPU)
    on_host.prepare(5)
    assert torch.equal((on_host.draw(torch.tensor(5))[1] * 255).round().int(), hr)


def test_placement_is_obeyed():
    assert isinstance(open_patches(make_set(), Sampling(6, 8), CPU), DevicePatches)
    assert isinstance(open_patches(make_set(), Sampling(6, 8), CPU, "host"), HostPatches)
    with pytest.raises(UserError, match="unknown placement 'moon'; choose from auto, device, host"):
        open_patches(make_set(), Sampling(6, 8), CPU, "moon")


def test_images_below_one_crop_are_named_and_never_drawn(caplog):
    lr, _ = draw(Sampling(11, 64))
    assert set(lr[:, 0, 0, 0].tolist()) == {1, 2}
    assert "left out, being smaller than one crop: 0" in caplog.text
    with pytest.raises(UserError, match="none of the 3 images is as large as one crop, 48x48"):
        draw(Sampling(24, 4))


def test_batches_are_channels_last_floats():
    images = make_set()
    lr, hr = DevicePatches(images, Sampling(6, 8), CPU).draw(torch.tensor(0))
    assert lr.dtype == hr.dtype == torch.float32
    assert hr.is_contiguous(memory_format=torch.channels_last)
    assert hr.max() <= to_float(images.hr).max()


@pytest.mark.parametrize("broken", [{"crop": 0}, {"batch_size": 0}, {"candidates": 0}])
def test_empty_batches_are_refused(broken):
    with pytest.raises(UserError, match="at least 1"):
        replace(Sampling(6, 8), **broken)


def photographs(scale, sizes=((40, 34), (30, 44))):
    """Random HR pictures with MATLAB's LR of each."""
    rng = np.random.default_rng(0)
    hr = [rng.integers(0, 256, (scale * height, scale * width, 3), dtype=np.uint8) for height, width in sizes]
    images = make_set(scale, sizes)
    flat = (
        np.concatenate([each.reshape(-1, 3) for each in many]) for many in ([imresize(h, 1 / scale) for h in hr], hr)
    )
    lr_pixels, hr_pixels = map(torch.from_numpy, flat)
    return hr, replace(images, lr=lr_pixels, hr=hr_pixels)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_crops_at_any_offset_have_the_lr_that_matlab_makes(scale):
    """LR of the photograph with as many rows and columns cut off as puts the crop on the grid."""
    hr_images, images = photographs(scale)
    sampling = Sampling(6, 64, any_offset=True, augment=False)
    lr, hr = draw(sampling, step=3, images=images)
    crops = choose_crops(ImageTable.of(images, sampling, CPU), sampling, torch.tensor(3))
    offsets = set()
    margin = 2 * scale
    for index, (number, top, left) in enumerate(zip(crops.image, crops.top + margin, crops.left + margin, strict=True)):
        whole = hr_images[int(number)]
        rows, columns = int(top) % scale, int(left) % scale
        offsets.add((rows, columns))
        small = imresize(crop_to_multiple(whole[rows:, columns:], scale), 1 / scale)
        at = (slice(int(top) // scale, int(top) // scale + 6), slice(int(left) // scale, int(left) // scale + 6))
        assert np.array_equal(lr[index].permute(1, 2, 0).numpy(), small[at])
        side = 6 * scale
        assert np.array_equal(hr[index].permute(1, 2, 0).numpy(), whole[int(top) :, int(left) :][:side, :side])
    assert len(offsets) == scale**2


def test_turned_crops_at_any_offset_belong_together():
    _, images = photographs(4)
    for more in ({}, {"candidates": 3}, {"swap_colours": True}, {"smallest_factor": 0.4}):
        lr, hr = draw(Sampling(6, 32, any_offset=True, **more), images=images)
        again = torch.from_numpy(np.stack([imresize(h.permute(1, 2, 0).numpy().astype(np.uint8), 1 / 4) for h in hr]))
        assert all(batch.is_contiguous(memory_format=torch.channels_last) for batch in (lr, hr))
        inner = (slice(None), slice(2, -2), slice(2, -2))  # what the crop's own border does not reach
        assert torch.equal(lr.permute(0, 2, 3, 1)[inner], again[inner].int())


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_candidates_at_any_offset_are_judged_where_they_lie(scale):
    """Those that happen to lie on the grid have there the LR that is made of them."""
    _, images = photographs(scale)
    sampling = Sampling(6, 512, any_offset=True, augment=False)
    table = ImageTable.of(images, sampling, CPU)
    crops = choose_crops(table, sampling, torch.tensor(0))
    on_grid = (crops.top % scale == 0) & (crops.left % scale == 0)
    assert on_grid.any()
    made, _ = draw(sampling, images=images)
    assert torch.equal(read_lr(images, table, sampling, crops)[on_grid].int(), made[on_grid])


def test_colours_swap_in_all_six_ways_in_both_halves():
    plain = draw(Sampling(4, 64))
    swapped = draw(Sampling(4, 64, swap_colours=True))
    ways = set()
    for a, b, c, d in zip(*plain, *swapped, strict=True):
        way = [order for order in permutations(range(3)) if torch.equal(a[list(order)], c)]
        assert any(torch.equal(b[list(order)], d) for order in way)
        ways |= set(way)
    assert ways == set(permutations(range(3)))


def test_a_set_that_is_on_the_gpu_stays_there(monkeypatch):
    class Pixels:
        def __init__(self, device, count):
            self.device, self.numel = torch.device(device), lambda: count

    gpu = torch.device("cuda")
    for place, count, expected in (("cpu", 100, True), ("cpu", 300, False), ("cuda", 300, True)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 2000))
        images = replace(make_set(), lr=Pixels(place, count), hr=Pixels(place, count))
        assert fits_on(images, gpu) is expected
        assert fits_on(images, CPU)


def test_images_need_room_for_the_margin_too():
    with pytest.raises(UserError, match="none of the 3 images is as large as one crop, 42x42 pixels"):
        open_patches(make_set(), Sampling(17, 4, any_offset=True), CPU)


def test_photographs_shrunk_first_are_what_imresize_makes_of_them():
    """A factor of a half has MATLAB's grid where a window begins at an even pixel."""
    hr_images, images = photographs(2, sizes=((40, 34), (36, 44)))
    sampling = Sampling(6, 512, any_offset=True, smallest_factor=0.5)
    table = ImageTable.of(images, sampling, CPU)
    drawn = choose_crops(table, sampling, torch.tensor(1))
    factor = torch.where(torch.arange(512) % 2 == 0, 0.5, 1.0).double()
    crops = replace(drawn, top=torch.arange(512) % 3 * 2, left=torch.arange(512) % 4 * 2, factor=factor)
    result = read_rescaled(images, table, sampling, crops)
    for index, pixels in enumerate(result.permute(0, 2, 3, 1).numpy()):
        photograph = hr_images[int(crops.image[index])]
        whole = imresize(photograph, 0.5) if index % 2 == 0 else photograph
        start = [2 + int(float(place[index] * factor[index])) for place in (crops.top, crops.left)]
        expected = whole[start[0] : start[0] + 20, start[1] : start[1] + 20]
        expected = expected.transpose(1, 0, 2) if crops.transpose[index] else expected
        expected = expected[::-1] if crops.flip_rows[index] else expected
        expected = expected[:, ::-1] if crops.flip_columns[index] else expected
        difference = np.abs(pixels.astype(int) - expected)
        assert difference.max() <= 1  # imresize rounds once more, between its passes
        assert difference.mean() < 0.3


def test_factors_fill_their_range_and_keep_within_the_image():
    images, sampling = (
        make_set(4, sizes=[(40, 60), (12, 14)]),
        Sampling(6, 20_000, any_offset=True, smallest_factor=0.5),
    )
    table = ImageTable.of(images, sampling, CPU)
    crops = choose_crops(table, sampling, torch.tensor(0))
    large = crops.factor[crops.image == 0]
    assert (large == 1).double().mean().item() == pytest.approx(0.5, abs=0.02)
    shrunk = large[large < 1]
    assert shrunk.min().item() == pytest.approx(0.5, abs=0.001)
    assert shrunk.mean().item() == pytest.approx(0.75, abs=0.01)
    ends = crops.top + span(4 * sampling.side, crops.factor)
    assert (ends <= 4 * table.heights[crops.image]).all()
    assert ends[crops.image == 0].max() == 160
    assert crops.factor[crops.image == 1].min() > 0.9  # 44 of 48 pixels


def test_shrinking_first_needs_lr_made_as_crops_are_drawn():
    with pytest.raises(UserError, match="LR must be made as crops are drawn"):
        Sampling(6, 4, smallest_factor=0.5)
    with pytest.raises(UserError, match=r"data.smallest_factor is 1.5; it must lie in \(0, 1\]"):
        Sampling(6, 4, any_offset=True, smallest_factor=1.5)
