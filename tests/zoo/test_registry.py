"""What is listed, where it lies, and that nothing damaged is loaded."""

import json
import os

import pytest
import torch

import enlcn
from enlcn.errors import UserError
from enlcn.zoo import bundled, here, known, locate, manifest, native_scale, registry
from enlcn.zoo.verify import check


def same(network, other):
    return all(torch.equal(a.half(), b.half()) for a, b in zip(network.parameters(), other.parameters(), strict=True))


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_rows_survive_the_way_through_json(zoo):
    facts = {"steps": 5, "seed": 0, "scores": {"Set5": (32.041, 0.89)}, "bicubic": {"Set5": (28.4, 0.8)}}
    model = zoo.add("enlcn-light-x2", recipe="cpu-x2", cpu_seconds=0.25, **facts)
    assert known() == {"enlcn-light-x2": model}
    manifest.write_one(zoo.checkout / "one.json", model)
    assert manifest.read(zoo.checkout / "one.json") == [model]


def test_what_is_not_a_manifest_is_said_in_one_line(zoo):
    model = manifest.to_plain(zoo.add("enlcn-light-x2")) | {"format_version": 1}
    for change, message in (
        ({"scale": 5}, "scale 5"),
        ({"name": "../x"}, "no name for a model"),
        ({"file": {**model["file"], "name": "x.pt"}}, r"no \.safetensors"),
        ({"file": {**model["file"], "sha256": "12"}}, "64 hexadecimal digits"),
        ({"file": {**model["file"], "name": "a/b.safetensors"}}, "not the name of a file"),
        ({"file": {**model["file"], "parts": [{**model["file"], "size": 1}]}}, "do not add up"),
        ({"format_version": 2}, "version 2"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            manifest.parse(json.dumps(model | change), "m.json")
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith("m.json: ")
    for text in ("[]", "{", "null", '{"format_version": 1}'):
        with pytest.raises(UserError, match="not a manifest"):
            manifest.parse(text, "m.json")


def test_a_bundled_model_is_checked_on_load(zoo):
    zoo.add("enlcn-light-x2")
    path = zoo.package / "enlcn-light-x2.safetensors"
    assert bundled() == {"enlcn-light-x2": path}
    assert same(enlcn.load("enlcn-light-x2"), zoo.network(2))
    damage(path)
    with pytest.raises(UserError, match=r"enlcn-light-x2\.safetensors: damaged .* install the package again"):
        enlcn.load("enlcn-light-x2")
    assert not check(known()["enlcn-light-x2"]).intact


def test_files_without_a_row_and_rows_without_a_file(zoo):
    zoo.add("enlcn-light-x2", listed=False)
    assert known() == {}
    zoo.add("enlcn-light-x3")
    (zoo.package / "enlcn-light-x3.safetensors").unlink()
    assert bundled() == {}
    assert list(known()) == ["enlcn-light-x3"]
    assert here() == []
    with pytest.raises(UserError, match=r"enlcn-light-x3: not on this computer"):
        enlcn.load("enlcn-light-x3")


@pytest.mark.parametrize("listed", [True, False])
def test_parts_are_joined_once_and_checked_each_time(zoo, listed):
    model = zoo.add_parts("enlcn-x4", listed=listed)
    assert len(model.file.parts) > 2
    assert registry.find(model).kind == "weights"
    assert same(enlcn.load("enlcn-x4"), zoo.network(4))
    (name,) = zoo.cached()
    assert name == f"enlcn-x4-{model.sha256[:12]}.safetensors"
    joined = locate("enlcn-x4")
    stamp = joined.stat().st_mtime_ns
    assert locate("enlcn-x4").stat().st_mtime_ns == stamp
    damage(joined)
    assert same(enlcn.load("enlcn-x4"), zoo.network(4))  # joined again
    assert locate("enlcn-x4").stat().st_mtime_ns != stamp
    assert check(model).message == f"intact ({len(model.file.parts) + 1} files)"


def test_a_damaged_or_missing_part_leaves_nothing_in_the_cache(zoo):
    model = zoo.add_parts("enlcn-x4")
    part = zoo.weights / "enlcn-x4" / "part-01"
    damage(part)
    with pytest.raises(UserError, match=r"part-01: this part is damaged .*fetch it again"):
        enlcn.load("enlcn-x4")
    assert "part-01" in check(model).message
    part.unlink()
    with pytest.raises(UserError, match=r"part-01: this part is missing"):
        enlcn.load("enlcn-x4")
    assert check(model).message.startswith("MISSING")
    assert zoo.cached() == []


def test_new_weights_of_the_same_name_do_not_take_the_old_from_the_cache(zoo):
    zoo.add_parts("enlcn-x4", seed=1)
    assert same(enlcn.load("enlcn-x4"), zoo.network(4, seed=1))
    zoo.add_parts("enlcn-x4", seed=2)
    assert same(enlcn.load("enlcn-x4"), zoo.network(4, seed=2))
    assert len(zoo.cached()) == 2


def test_a_folder_given_by_the_user_by_path_or_variable(zoo, tmp_path, monkeypatch):
    folder = tmp_path / "mine" / "big-x3"
    model = zoo.add_parts("big-x3", listed=False, folder=folder)
    for source in (folder, folder / "manifest.json", f"file://{folder}/manifest.json"):
        assert same(enlcn.load(source), zoo.network(3))
    assert list(known()) == []
    monkeypatch.setenv("ENLCN_WEIGHTS", str(tmp_path / "mine"))
    assert known() == {"big-x3": model}
    assert same(enlcn.load("big-x3"), zoo.network(3))


def test_a_manifest_that_is_not_that_of_one_model(zoo, tmp_path, monkeypatch):
    row = manifest.to_plain(zoo.add("enlcn-light-x2"))
    path = tmp_path / "mine" / "some-x2" / "manifest.json"
    path.parent.mkdir(parents=True)
    for content, message in (
        (json.dumps({"format_version": 1, "models": [row, row]}), "lists 2 models"),
        (json.dumps({"format_version": 1, "models": []}), "lists 0 models"),
        (json.dumps({"format_version": 1, **row, "parameters": "many"}), "parameters cannot be 'many'"),
        (json.dumps({"format_version": 1, **row, "steps": [1]}), "steps cannot be"),
        ("[" * 100_000, "not a manifest of models"),
    ):
        path.write_text(content)
        for ask in (enlcn.load, native_scale):
            with pytest.raises(UserError, match=message):
                ask(str(path.parent))


def test_manifests_of_other_programs_among_weights_are_told_once_and_left_out(zoo, tmp_path, monkeypatch, caplog):
    model = zoo.add_parts("big-x3", listed=False, folder=tmp_path / "mine" / "big-x3")
    for name, content in (("web-page", '{"name": "a page"}'), ("newer", '{"format_version": 99}'), ("broken", "{")):
        (tmp_path / "mine" / name).mkdir()
        (tmp_path / "mine" / name / "manifest.json").write_text(content)
    monkeypatch.setenv("ENLCN_WEIGHTS", str(tmp_path / "mine"))
    for _ in range(2):
        assert known() == {"big-x3": model}
    assert same(enlcn.load("big-x3"), zoo.network(3))
    assert sorted(record.message.split("/")[-2] for record in caplog.records) == ["broken", "newer", "web-page"]
    assert all(record.message.endswith("; left out") for record in caplog.records)


def test_a_folder_beside_an_installed_package_is_not_ours(zoo):
    zoo.add_parts("enlcn-x4", listed=False)
    (zoo.checkout / "pyproject.toml").unlink()
    assert known() == {}


def test_a_cache_that_cannot_be_written(zoo, tmp_path, monkeypatch):
    zoo.add_parts("enlcn-x4")
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENLCN_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"cannot be written .* name another folder with ENLCN_CACHE"):
        enlcn.load("enlcn-x4")


def test_what_is_shipped_is_complete_and_intact():
    """The real registry: every row, its file and its parts, and the manifest beside parts says the same."""
    rows = known()
    assert "enlcn-light-x4" in rows
    for name, row in rows.items():
        assert check(row).intact, check(row).message
        assert set(row.scores) == {"Set5", "Set14", "B100"}, name
        assert row.recipe
        assert row.hardware
        assert row.licence
        if row.file.parts:
            assert manifest.read(registry.weights_folders()[-1] / name / registry.MANIFEST_NAME) == [row]
            assert max(part.size for part in row.file.parts) <= 16 * 2**20
        else:
            assert row.size <= 16 * 2**20
            network = enlcn.load(name)
            assert (network.config.scale, sum(p.numel() for p in network.parameters())) == (row.scale, row.parameters)


@pytest.mark.parametrize("name", ["enlcn-light-x4", "enlcn-fast-x2", "enlcn-photo-x3"])
def test_the_same_evaluation_gives_the_same_digits(name, data_dir):
    """Set5 twice, and as it is listed."""
    if "ENLCN_WEIGHTS" in os.environ:
        pytest.skip("other weights than the shipped ones are named by ENLCN_WEIGHTS")
    from enlcn.evaluate import evaluate

    row = known()[name]
    first, second = (evaluate([name], ["Set5"], row.scale, device="cpu").mean(name, "Set5") for _ in "12")
    assert (first.psnr_y, first.ssim_y) == (second.psnr_y, second.ssim_y)
    psnr, ssim = row.scores["Set5"]
    assert (f"{first.psnr_y:.2f}", f"{first.ssim_y:.4f}") == (f"{psnr:.2f}", f"{ssim:.4f}")
