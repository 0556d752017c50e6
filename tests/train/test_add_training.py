"""benchmarks/add_training.py: what one stage of a network learned, added to its sibling of another scale."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import enlcn
from enlcn import recipes
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("add_training")


def stages(tmp_path):
    """A network of x3, two stages of one of x4, as files."""
    torch.manual_seed(0)
    base = SRNetwork(replace(recipes.TINY, scale=3))
    before, after = SRNetwork(recipes.TINY), SRNetwork(recipes.TINY)
    paths = [tmp_path / f"{name}.safetensors" for name in ("base", "after", "before")]
    for network, path in zip((base, after, before), paths, strict=True):
        enlcn.save(network, path)
    return (base, after, before), paths


def test_the_difference_is_added_where_shapes_agree(tool, tmp_path, monkeypatch):
    (base, after, before), paths = stages(tmp_path)
    out = tmp_path / "out.safetensors"
    arguments = [paths[0], "--after", paths[1], "--before", paths[2], "--out", out]
    monkeypatch.setattr("sys.argv", ["add_training.py", *map(str, arguments)])
    tool.main()
    made = enlcn.load(out)
    assert made.config == base.config
    theirs = [dict(network.named_parameters()) for network in (base, after, before)]
    kept = []
    for name, weight in made.named_parameters():
        start, learned, known = (each[name] for each in theirs)
        if start.shape != known.shape:
            kept.append(name)
            assert torch.equal(weight, start)
        else:
            assert torch.allclose(weight, start + learned - known)
    assert kept == ["upsampler.0.weight", "upsampler.0.bias"]
    for ours, of_base in zip(made.buffers(), base.buffers(), strict=True):
        assert torch.equal(ours, of_base)
    with pytest.raises(SystemExit, match="exists already"):
        tool.main()


def test_strangers_are_refused(tool):
    tiny, small = SRNetwork(recipes.TINY), SRNetwork(recipes.SMALL)
    with pytest.raises(UserError, match="two stages of one"):
        tool.with_training(tiny, small, tiny)
    with pytest.raises(UserError, match="networks of one family"):
        tool.with_training(small, tiny, tiny)
