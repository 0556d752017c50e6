"""Programs of torch.export: any size and batch, runnable without this package, with their metadata."""

import json
import subprocess
import sys

import pytest
import torch

from enlcn.errors import UserError
from enlcn.export import graph
from enlcn.export.torch_export import export_pt2


def test_any_size_and_metadata(attentive, tmp_path):
    path = tmp_path / "a.pt2"
    made = export_pt2(attentive, path, name="attentive")
    assert made.difference < 1e-5
    said = {"config": "", "scale": "", "licence": ""}
    program = torch.export.load(path, extra_files=said)
    assert json.loads(said["config"])["channels"] == attentive.config.channels
    assert said["scale"] == "2"
    module = program.module()
    for size in ((1, 3, 5, 9), (3, 3, 16, 11), (1, 3, 100, 90)):
        lr = torch.rand(size)
        with torch.inference_mode():
            torch.testing.assert_close(module(lr), attentive(lr), atol=1e-5, rtol=0)
    code = (
        "import sys, torch; sr = torch.export.load(sys.argv[1]).module()(torch.rand(1, 3, 4, 5)); "
        "print(tuple(sr.shape), 'enlcn' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "(1, 3, 8, 10) False", done.stderr


def test_half_precision(plain, tmp_path):
    made = export_pt2(plain, tmp_path / "half.pt2", precision="fp16")
    assert 0 < made.difference < 5e-3
    module = torch.export.load(tmp_path / "half.pt2").module()
    assert module(torch.rand(1, 3, 4, 5)).dtype == torch.float32


def test_a_full_disk_is_told_in_one_line(plain, tmp_path, full_disk):
    with full_disk(), pytest.raises(UserError, match=r"a\.pt2: cannot be written \(File too large\)"):
        export_pt2(plain, tmp_path / "a.pt2")
    assert list(tmp_path.iterdir()) == []


def test_refusals(plain, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"end in \.pt2"):
        export_pt2(plain, tmp_path / "a.pt")
    monkeypatch.setitem(graph.TOLERANCES, "fp16", 0.0)
    with pytest.raises(UserError, match="differs from PyTorch"):
        export_pt2(plain, tmp_path / "a.pt2", precision="fp16")
    assert list(tmp_path.iterdir()) == []
