import json
import pickle
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

import enlcn
from enlcn import recipes
from enlcn.checkpoint import load, read, read_config_of, save
from enlcn.config import AttentionConfig
from enlcn.errors import UserError
from enlcn.file_metadata import file_metadata
from enlcn.models.backbone import SRNetwork
from enlcn.plain_config import to_plain
from tests.authors_weights import authors_state


@pytest.fixture
def network():
    return SRNetwork(recipes.TINY).eval()


def test_round_trip(tmp_path, network):
    save(network, tmp_path / "deep" / "w.safetensors")
    loaded = enlcn.load(tmp_path / "deep" / "w.safetensors")
    lr = torch.rand(1, 3, 9, 8)
    assert loaded.config == network.config
    assert not loaded.training
    assert torch.equal(loaded(lr), network(lr))


def test_the_config_alone(tmp_path, network, monkeypatch):
    path = tmp_path / "run" / "model.safetensors"
    save(network, path)
    torch.save(authors_state(), tmp_path / "authors.pt")
    assert read_config_of(tmp_path / "authors.pt") == read(tmp_path / "authors.pt").config
    path.with_name("cut.safetensors").write_bytes(path.read_bytes()[:100])
    for name, message in {"cut": "not a readable safetensors file", "gone": "no such file"}.items():
        with pytest.raises(UserError, match=rf"{name}\.safetensors: {message}"):
            read_config_of(path.with_name(f"{name}.safetensors"))
    monkeypatch.setattr("enlcn.checkpoint._read_safetensors", lambda path: pytest.fail("the weights were read"))
    assert read_config_of(path) == read_config_of(path.parent) == network.config


@pytest.mark.parametrize("name", recipes.NETWORKS)
def test_every_network_round_trips(tmp_path, name):
    from dataclasses import replace

    config = recipes.NETWORKS[name]
    small = replace(config, channels=8, num_blocks=2, attention_after=(0, 2) if config.attention_after else ())
    network = SRNetwork(small)
    save(network, tmp_path / "w.safetensors")
    lr = torch.rand(1, 3, 6, 6)
    assert torch.equal(load(tmp_path / "w.safetensors")(lr), network(lr))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_stored_small_loaded_in_float32(tmp_path, network, dtype):
    save(network, tmp_path / "w.safetensors", dtype=dtype)
    assert load_file(tmp_path / "w.safetensors")["head.weight"].dtype == dtype
    loaded = load(tmp_path / "w.safetensors")
    assert loaded.head.weight.dtype == torch.float32
    assert torch.equal(loaded.head.weight, network.head.weight.to(dtype).float())


def test_never_overwrites_without_being_told(tmp_path, network):
    target = tmp_path / "w.safetensors"
    target.write_text("precious")
    with pytest.raises(UserError, match="exists already"):
        save(network, target)
    assert target.read_text() == "precious"
    save(network, target, overwrite=True)
    assert load(target).config == network.config
    assert list(tmp_path.iterdir()) == [target]  # no temporary files left


def test_failed_write_leaves_nothing(tmp_path, network, full_disk):
    with full_disk(), pytest.raises(UserError, match=r"w\.safetensors: cannot be written \(File too large\)"):
        save(network, tmp_path / "w.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_equal_networks_are_equal_bytes(tmp_path, network):
    for index in range(8):  # the library's own order of three entries would differ in most of eight
        save(network, tmp_path / f"{index}.safetensors")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_untrained_networks_are_always_the_same():
    state = torch.get_rng_state()
    first, again = load("untrained:enlcn-tiny-x2"), load("untrained:enlcn-tiny-x2")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert first.config.scale == 2


class Harmful:
    def __reduce__(self):
        return (print, ("executed",))


def damaged_files(folder, network):
    """name -> (path, what the message must say)."""
    save(network, folder / "good.safetensors")
    tensors = load_file(folder / "good.safetensors")
    config = json.dumps(to_plain(network.config))

    def write(name, tensors, **metadata):
        save_file(tensors, folder / f"{name}.safetensors", metadata)

    ours = {"format": "enlcn", "format_version": "1"}
    write("version", tensors, format="enlcn", format_version="9", config=config)
    write("config", tensors, **ours, config="{")
    write("setting", tensors, **ours, config=json.dumps({"colour": 1}))
    write("type", tensors, **ours, config=json.dumps(to_plain(network.config) | {"channels": "16"}))
    write("list", tensors, **ours, config="[1, 2]")
    write("rotations", tensors | {"stages.0.attention.rotations": torch.zeros(1)}, **ours, config=config)
    write("missing", {k: v for k, v in tensors.items() if k != "head.bias"}, **ours, config=config)
    write("extra", tensors | {"zzz": torch.zeros(1)}, **ours, config=config)
    write("shape", tensors | {"head.bias": torch.zeros(2)}, **ours, config=config)
    (folder / "cut.safetensors").write_bytes((folder / "good.safetensors").read_bytes()[:1000])
    (folder / "empty.safetensors").write_bytes(b"")
    (folder / "text.pt").write_text("hello")
    (folder / "empty.pt").write_bytes(b"")
    (folder / "harmful.pt").write_bytes(pickle.dumps(Harmful()))
    (folder / "notes.txt").write_text("hello")
    torch.save([1, 2], folder / "list.pt")
    torch.save(network, folder / "module.pt")
    torch.save({"format": "enlcn-training", "step": 3}, folder / "last.pt")
    (folder / "nothing").mkdir()
    torch.save({}, folder / "nothing.pt")
    (folder / "program.pt2").write_bytes(b"PK")
    return {
        "version.safetensors": "format version 9",
        "config.safetensors": "config in its metadata cannot be read",
        "setting.safetensors": "unknown setting 'colour'",
        "type.safetensors": "channels is '16'; expected a whole number",
        "list.safetensors": r"the config is \[1, 2\]; expected names and values of settings",
        "rotations.safetensors": r"unexpected key 'stages\.0\.attention\.rotations'",
        "missing.safetensors": "missing key 'head.bias'",
        "extra.safetensors": "unexpected key 'zzz'",
        "shape.safetensors": r"key 'head.bias' has shape \(2,\), expected \(16,\)",
        "cut.safetensors": "not a readable safetensors",
        "empty.safetensors": "not a readable safetensors",
        "text.pt": "cannot be read as weights alone",
        "empty.pt": "cannot be read as weights alone",
        "harmful.pt": "cannot be read as weights alone",
        "notes.txt": r"unknown kind of file; expected \.safetensors, \.pt, \.pth, \.ckpt, or \.onnx for upscaling$",
        "program.pt2": r"a torch\.export program, for other programs to run; give the weights it was made of$",
        "module.pt": r"whole module .*\.SRNetwork\); save the module's state_dict\(\) instead$",
        "last.pt": "a training checkpoint; `enlcn export-weights` writes",
        "nothing": "a folder without model.safetensors",
        "list.pt": "holds no state dict",
        "nothing.pt": "no tensors",
        "absent.pt": "no such file or model",
    }


def test_damaged_files_give_one_line_that_names_them(tmp_path, network, capsys):
    import re

    for name, message in damaged_files(tmp_path, network).items():
        with pytest.raises(UserError) as caught:
            read(tmp_path / name)
        text = str(caught.value)
        assert name in text
        assert re.search(message, text), text
        assert "\n" not in text
        assert "\x1b" not in text
    assert "executed" not in capsys.readouterr().out


def test_hashing_directions_are_checked_where_a_file_has_them(tmp_path):
    config = replace(recipes.TINY, attention=AttentionConfig(kind="nlsa", reduction=2))
    save(SRNetwork(config), tmp_path / "whole.safetensors")
    tensors = load_file(tmp_path / "whole.safetensors")
    name = next(key for key in tensors if key.endswith(".rotations"))
    for file, values in {
        "absent": {key: value for key, value in tensors.items() if key != name},
        "bad": tensors | {name: torch.zeros(2, 3)},
    }.items():
        save_file(values, tmp_path / f"{file}.safetensors", file_metadata(config))
    assert load(tmp_path / "absent.safetensors")(torch.rand(1, 3, 8, 8)).isfinite().all()
    with pytest.raises(UserError, match=rf"bad.safetensors: key '{name}' has shape \(2, 3\), expected"):
        load(tmp_path / "bad.safetensors")


def test_a_runs_folder_stands_for_its_network(tmp_path, network):
    save(network, tmp_path / "run" / "model.safetensors")
    assert torch.equal(load(tmp_path / "run").head.weight, network.head.weight)
    unfinished = tmp_path / "unfinished"
    (unfinished / "checkpoints").mkdir(parents=True)
    (unfinished / "checkpoints" / "last.pt").write_bytes(b"")
    with pytest.raises(UserError, match=r"unfinished: a run that is not finished; `enlcn export-weights .*unfinished "):
        load(unfinished)


@pytest.mark.parametrize("source", [torch.nn.Linear(1, 1), 4, None])
def test_only_names_and_files_are_loaded(source):
    with pytest.raises(UserError, match=f"not from a {type(source).__name__}"):
        load(source)


@pytest.mark.parametrize(
    "device",
    ["warp", "cuda:99", pytest.param("cuda", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="has CUDA"))],
)
def test_devices_that_are_not_there_are_named(device):
    with pytest.raises(UserError, match=f"device '{device}' cannot be used") as caught:
        load("untrained:enlcn-tiny", device=device)
    assert "\n" not in str(caught.value)
    assert "--device" not in str(caught.value)


def test_of_torchs_devices_only_those_in_use_are_listed():
    with pytest.raises(UserError, match=r"\(no such device\); choose from cpu, cuda, cuda:1, mps$"):
        load("untrained:enlcn-tiny", device="warp")


def test_save_wants_safetensors(tmp_path, network):
    with pytest.raises(UserError, match=r"\.safetensors"):
        save(network, tmp_path / "w.pt")
