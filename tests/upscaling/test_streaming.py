"""Streaming gives what the whole image gives, whatever the tiles; planes keep what they are told to keep."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from enlcn import recipes
from enlcn.config import AttentionConfig
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.in_place import InPlace
from enlcn.upscaling.planes import FilePlane, MemoryPlane, Scratch, require_disk
from enlcn.upscaling.streaming import StreamPlan, features_channels, stream
from enlcn.upscaling.tiling import count_tiles, tiles
from enlcn.upscaling.whole import upscale_whole

LIMIT = 1 / 255 / 50


def streamed(network, lr, side, dtype=np.float32, budget=0):
    height, width = lr.shape[-2:]
    s = network.config.scale
    out = torch.full((1, 3, s * height, s * width), torch.nan)

    def emit(tile, sr):
        out[..., s * tile.top : s * tile.bottom, s * tile.left : s * tile.right] = sr

    steps = []
    with Scratch(budget) as scratch:
        channels = features_channels(network)
        plane = scratch.plane(height, width, channels, np.dtype(dtype)) if channels else None
        plan = StreamPlan(height, width, side)
        read = lambda t: lr[..., t.top : t.bottom, t.left : t.right]  # noqa: E731
        stream(network, read, emit, plan, plane, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(i + 1, len(steps)) for i in range(len(steps))]
    return out


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    side=st.integers(3, 40),
    height=st.integers(1, 45),
    width=st.integers(1, 45),
    scale=st.sampled_from([2, 3, 4]),
    upsampler=st.sampled_from(["direct", "stepwise"]),
    block=st.sampled_from(
        [{}, {"block_width": 24}, {"block": "gated", "block_width": 24}, {"block": "gated", "block_kernel": 3}]
    ),
    places=st.sampled_from([(), (0,), (3,), (5,), (0, 1, 2, 3, 5)]),
    amplification=st.sampled_from([6.0, 64.0, None]),
    in_memory=st.booleans(),
)
def test_streaming_equals_the_whole_image(
    side, height, width, scale, upsampler, block, places, amplification, in_memory
):
    torch.manual_seed(side)
    attention = AttentionConfig(kind="enlca" if places else "none", num_features=24, amplification=amplification)
    config = replace(
        recipes.TINY,
        scale=scale,
        upsampler=upsampler,
        num_blocks=5,
        attention_after=places,
        attention=attention,
        **block,
    )
    network = SRNetwork(config).eval()
    lr = torch.rand(1, 3, height, width)
    with torch.no_grad():
        whole = network(lr)
    out = streamed(network, lr, side, budget=2**30 if in_memory else 0)
    assert (out - whole).abs().max() <= LIMIT


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    side=st.integers(5, 30),
    height=st.integers(7, 40),
    width=st.integers(7, 40),
    scale=st.sampled_from([2, 3, 4]),
    places=st.sampled_from([(0,), (0, 1, 2, 3, 4)]),
)
def test_streaming_equals_the_whole_image_at_full_width(side, height, width, scale, places):
    """256 channels, one and five attentions, features about as large as trained ones."""
    torch.manual_seed(side)
    network = SRNetwork(replace(recipes.ENLCN, scale=scale, num_blocks=4, attention_after=places)).eval()
    lr = torch.rand(1, 3, height, width)
    with torch.no_grad():
        network.head.weight *= 5
        whole = network(lr)
    assert whole.std() > 0.05
    assert (streamed(network, lr, side) - whole).abs().max() <= LIMIT


def test_two_runs_are_bit_equal():
    network, lr = SRNetwork(recipes.TINY).eval(), torch.rand(1, 3, 40, 33)
    assert torch.equal(streamed(network, lr, 13), streamed(network, lr, 13))


def test_half_precision_features_stay_close():
    network, lr = SRNetwork(recipes.TINY).eval(), torch.rand(1, 3, 40, 33)
    with torch.no_grad():
        whole = network(lr)
    difference = (streamed(network, lr, 13, dtype=np.float16) - whole).abs().max()
    assert 0 < difference < 1 / 255


@pytest.mark.parametrize("kind", ["nla", "nlsa", "cca"])
def test_rivals_say_that_they_cannot_be_streamed(kind):
    network = SRNetwork(replace(recipes.TINY, attention=AttentionConfig(kind=kind)))
    with pytest.raises(UserError, match=rf"cannot stream this network: its attention \({kind}\)"):
        streamed(network, torch.rand(1, 3, 9, 9), 4)


@pytest.mark.parametrize("upsampler", ["direct", "stepwise"])
def test_whole_mode_by_strips_equals_the_network(upsampler, monkeypatch):
    monkeypatch.setattr("enlcn.upscaling.whole.STRIP_PIXELS", 100)
    network = SRNetwork(replace(recipes.TINY, upsampler=upsampler)).eval()
    lr = torch.rand(1, 3, 21, 30)
    rows = []
    upscale_whole(network, lr, lambda tile, sr: rows.append(sr))
    assert len(rows) == 7
    with torch.no_grad():
        assert torch.allclose(torch.cat(rows, dim=-2), network(lr), atol=1e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(height=st.integers(1, 30), width=st.integers(1, 30), side=st.integers(1, 31), halo=st.integers(0, 40))
def test_in_place_scan_reads_the_old_and_leaves_the_new(height, width, side, halo):
    old = np.random.default_rng(0).random((height, width, 2))
    plane = MemoryPlane(old.copy())
    scan = InPlace(plane, halo)
    for tile in tiles(height, width, side):
        grown = tile.grown(halo)
        assert np.array_equal(scan.read(tile), old[grown.top : grown.bottom, grown.left : grown.right])
        scan.write(tile, -old[tile.top : tile.bottom, tile.left : tile.right])
    assert np.array_equal(plane.array, -old)
    assert count_tiles(height, width, side) == len(list(tiles(height, width, side)))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32])
def test_file_plane_is_a_plane(dtype, tmp_path):
    reference = np.random.default_rng(1).integers(0, 200, (17, 23, 3)).astype(dtype)
    with Scratch(0, tmp_path) as scratch:
        plane = scratch.plane(17, 23, 3, np.dtype(dtype))
        assert isinstance(plane, FilePlane)
        assert scratch.disk_used == plane.nbytes == reference.nbytes
        for tile in tiles(17, 23, 5):
            plane.write(tile.top, tile.left, reference[tile.top : tile.bottom, tile.left : tile.right])
        assert np.array_equal(plane.read(0, 17, 0, 23), reference)
        assert np.array_equal(plane.read(3, 9, 11, 20), reference[3:9, 11:20])
        assert list(tmp_path.iterdir()) == []  # the file has no name


def test_memory_first_then_disk(tmp_path):
    with Scratch(1000, tmp_path) as scratch:
        assert isinstance(scratch.plane(10, 10, 5, np.dtype(np.uint8)), MemoryPlane)
        assert isinstance(scratch.plane(10, 10, 5, np.dtype(np.uint8)), MemoryPlane)
        assert isinstance(scratch.plane(10, 10, 5, np.dtype(np.uint8)), FilePlane)


def test_too_little_disk_is_said_before_the_work(tmp_path):
    with pytest.raises(UserError, match="GiB of scratch space needed"):
        require_disk(tmp_path, 10**18)
