"""Files cut into parts, joined and checked; damage, overwriting, names that reach elsewhere."""

import json

import pytest
import torch

from enlcn import checkpoint
from enlcn.errors import UserError
from enlcn.file_parts import join_parts, split_file
from enlcn.models.backbone import SRNetwork
from tests.train.conftest import TINY

KIB = 1 / 1024


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "w.safetensors"
    checkpoint.save(SRNetwork(TINY.model), path, dtype=torch.float16)
    return path


def test_split_and_joined_it_is_the_same_file(weights, tmp_path):
    manifest = split_file(weights, 4 * KIB)
    parts = sorted(tmp_path.glob("*.part-*"))
    assert len(parts) == -(-weights.stat().st_size // 4096) > 2
    assert all(part.stat().st_size <= 4096 for part in parts)
    original = weights.read_bytes()
    assert b"".join(part.read_bytes() for part in parts) == original
    weights.unlink()
    assert join_parts(manifest) == weights
    assert weights.read_bytes() == original
    assert checkpoint.load(weights).config == TINY.model


def test_half_precision_is_half_the_size(weights, tmp_path):
    checkpoint.save(SRNetwork(TINY.model), tmp_path / "full.safetensors")
    assert weights.stat().st_size < 0.65 * (tmp_path / "full.safetensors").stat().st_size


def test_parts_of_an_earlier_cut_do_not_stay_beside_the_new_ones(weights):
    split_file(weights, 0.01)
    many = set(weights.parent.glob("*.part-*"))
    (weights.parent / f"{weights.name}.part-of-something-else").touch()
    split_file(weights, 1, overwrite=True)
    assert len(many) > 1
    assert sorted(path.name for path in weights.parent.glob("*.part-*")) == [
        f"{weights.name}.part-001",
        f"{weights.name}.part-of-something-else",
    ]


def test_damage_is_found(weights, tmp_path):
    manifest = split_file(weights, 4 * KIB)
    part = tmp_path / "w.safetensors.part-002"
    content = bytearray(part.read_bytes())
    content[7] ^= 1
    part.write_bytes(content)
    with pytest.raises(UserError, match=r"part-002: this part is damaged"):
        join_parts(manifest, tmp_path / "out.safetensors")
    part.unlink()
    with pytest.raises(UserError, match=r"part-002: this part is missing"):
        join_parts(manifest, tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_parts_in_the_wrong_order_are_found(weights, tmp_path):
    manifest = split_file(weights, 4 * KIB)
    content = json.loads(manifest.read_text())
    content["parts"].reverse()
    manifest.write_text(json.dumps(content))
    with pytest.raises(UserError, match="do not give the file"):
        join_parts(manifest, tmp_path / "out.safetensors")


def test_nothing_is_overwritten_and_no_other_folder_reached(weights, tmp_path):
    manifest = split_file(weights, 4 * KIB)
    with pytest.raises(UserError, match="exists already"):
        split_file(weights, 4 * KIB)
    with pytest.raises(UserError, match="exists already"):
        join_parts(manifest)
    content = json.loads(manifest.read_text())
    content["name"] = "../elsewhere.safetensors"
    manifest.write_text(json.dumps(content))
    with pytest.raises(UserError, match="not a manifest"):
        join_parts(manifest)
    for size in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UserError, match="at least one byte"):
            split_file(weights, size)
    with pytest.raises(UserError, match="cannot be read"):
        join_parts(tmp_path / "absent.parts.json")
