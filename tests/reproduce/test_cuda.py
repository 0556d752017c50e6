"""What only a GPU can show: every kind of row trains in captured steps there, and ends near where the CPU does."""

import pytest
import torch

from enlcn.reproduce import rows
from enlcn.reproduce.material import Material
from enlcn.reproduce.receptive import input_influence
from enlcn.reproduce.rows import RunSpec, config_of, key_of
from enlcn.reproduce.run import Left, Request, reproduce
from enlcn.reproduce.store import Store
from enlcn.reproduce.training import perform
from enlcn.train.start import fresh_network
from tests.reproduce.conftest import PRESET

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
STEPS = 30
KINDS = {
    "none": rows.BASE,
    "enlca": rows.FULL,
    "m 2": rows.EFFICIENCY["ENLCA-m2"],
    "m 256": rows.EFFICIENCY["ENLCA-m256"],
    "nla": rows.NLA,
    "nlsa": rows.NLSA,
    "cca": rows.CRISSCROSS["Criss-Cross"],
    "exact": rows.ESTIMATED["exact"],
}


@pytest.mark.parametrize("recipe", KINDS.values(), ids=KINDS)
def test_a_row_trains_there(recipe, tmp_path, sources, material, caplog):
    spec = RunSpec(recipe, 0)
    key = key_of(config_of(spec, PRESET, STEPS))
    found = {}
    for name, pictures in (("cpu", material), ("cuda", Material(sources, PRESET, torch.device("cuda", 0)))):
        store = Store(tmp_path / name)
        assert perform(spec, PRESET, STEPS, pictures, store, float("inf"))
        found[name] = store.run(key)
    assert found["cuda"]["skipped_steps"] == 0
    # bfloat16 there, float32 here
    assert found["cuda"]["psnr"]["Set5"] == pytest.approx(found["cpu"]["psnr"]["Set5"], abs=1.0)
    assert "without a CUDA graph" not in caplog.text


def test_slopes_agree():
    network = fresh_network(config_of(RunSpec(rows.FULL, 0), PRESET, STEPS)).eval()
    lr = torch.rand(1, 3, 16, 16)
    here = input_influence(network, lr, (8, 8))
    there = input_influence(network.cuda(), lr.cuda(), (8, 8)).cpu()
    torch.testing.assert_close(there, here, rtol=0.05, atol=1e-3 * here.max().item())


def test_everything_is_measured_there(tmp_path, sources):
    names = ("runtime", "estimators", "amplification", "receptive", "correlation", "sparsity", "visual", "table1")
    changes = (("crop", 8), ("photo_side", 12), ("testsets", None), ("test_crop", None))
    request = Request(
        names, tmp_path, sources, budget=20, device="cuda", preset="smoke", changes=changes, steps=8, jobs=2
    )
    assert reproduce(request) == Left(0, ())
    assert set(Store(tmp_path).result("runtime")["data"]["times"]) == {"float32", "tf32", "bfloat16"}
