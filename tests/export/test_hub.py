"""The Hugging Face Hub: folders written and read, model cards, and hf: addresses against a Hub on this computer."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard, PyTorchModelHubMixin
from safetensors import safe_open

import enlcn
from enlcn import recipes
from enlcn.errors import UserError
from enlcn.export import graph, hub
from enlcn.export.hub_network import HubNetwork
from enlcn.models.backbone import SRNetwork
from tests.export import hub_server

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "config",
    [
        replace(recipes.TINY, scale=3),
        recipes.with_attention(replace(recipes.TINY, upsampler="stepwise"), kind="nlsa", amplification=None),
    ],
    ids=["enlca", "nlsa"],
)
def test_round_trip_through_a_folder(config, tmp_path):
    network = SRNetwork(config).eval()
    network.save_pretrained(tmp_path / "model")
    assert {file.name for file in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    assert json.loads((tmp_path / "model" / "config.json").read_text())["scale"] == config.scale
    again = SRNetwork.from_pretrained(tmp_path / "model")
    assert isinstance(again, PyTorchModelHubMixin)
    assert again.config == config
    assert not again.training
    before, after = network.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert any(key.endswith(("projection", "rotations")) for key in before)  # what is random is kept, too
    for key, value in before.items():
        assert torch.equal(value, after[key]), key
    lr = torch.rand(1, 3, 12, 10)
    with torch.inference_mode():
        assert torch.equal(network(lr), again(lr))
    assert enlcn.load(tmp_path / "model").config == config  # the folder is one of ours as well


def test_what_the_hub_is_told(tmp_path):
    SRNetwork(recipes.TINY).save_pretrained(tmp_path)
    data = ModelCard.load(tmp_path / "README.md").data
    assert data.library_name == "enlcn"
    assert data.pipeline_tag == "image-to-image"
    assert data.license == "other"
    assert {"super-resolution", "pytorch_model_hub_mixin", "model_hub_mixin"} <= set(data.tags)
    assert HubNetwork._hub_mixin_info.paper_url == "https://arxiv.org/abs/2201.03794"
    text = (tmp_path / "README.md").read_text()
    assert "4 residual blocks of 16 channels" in text
    assert "hf:OWNER/NAME" in text


def test_loaded_networks_can_be_saved_and_share_their_weights(tmp_path):
    network = enlcn.load("untrained:enlcn-tiny-x2")
    shared = HubNetwork.sharing(network)
    with torch.no_grad():
        network.head.weight.fill_(0.5)
    assert torch.equal(shared.head.weight, network.head.weight)
    assert HubNetwork.sharing(shared) is shared
    shared.save_pretrained(tmp_path)
    assert torch.equal(SRNetwork.from_pretrained(tmp_path).head.weight, network.head.weight)


def test_export_writes_a_folder_with_the_models_own_card(tmp_path):
    folder = tmp_path / "light"
    command = [sys.executable, "-m", "enlcn", "export", "enlcn-light-x4", folder, "--precision", "fp16"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    card = (ROOT / "docs" / "models" / "enlcn-light-x4.md").read_text()
    assert card.strip() in (folder / "README.md").read_text()
    assert ModelCard.load(folder / "README.md").data.library_name == "enlcn"
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert file.get_tensor("head.weight").dtype == torch.float16
    assert torch.equal(enlcn.load(folder).head.weight, enlcn.load("enlcn-light-x4").head.weight)
    again = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["light"]


def test_other_weights_do_not_borrow_the_card_of_a_shipped_name(tmp_path):
    """A training run often lies in a folder that is called like the model it starts from."""
    mine, name = SRNetwork(recipes.TINY), "enlcn-light-x4"
    hub.save_folder(mine, tmp_path / "mine", name=name)
    text = (tmp_path / "mine" / "README.md").read_text()
    assert "4 residual blocks of 16 channels" in text
    assert "SHA-256" not in text
    own, shipped = (graph.describe(network, name=name, precision="fp32") for network in (mine, enlcn.load(name)))
    assert own["licence"].endswith("as their author says")
    assert own["licence"] != shipped["licence"]


def test_a_folder_in_half_leaves_the_network_as_it_was(tmp_path):
    SRNetwork(recipes.TINY).save_pretrained(tmp_path / "a")
    network = SRNetwork.from_pretrained(tmp_path / "a")
    hub.save_folder(network, tmp_path / "half", name="tiny", half=True)
    network.save_pretrained(tmp_path / "whole")
    for folder, dtype in (("half", torch.float16), ("whole", torch.float32)):
        with safe_open(tmp_path / folder / "model.safetensors", framework="pt") as file:
            assert file.get_tensor("head.weight").dtype == dtype


PROBE = """
import sys, torch, enlcn
from enlcn.errors import UserError
for name in sys.argv[1:]:
    try:
        network = enlcn.load(name)
        print("loaded", network.config.scale, network.head.weight.sum().item())
    except UserError as error:
        print("refused", error)
"""


def probe(home, *names, **environment):
    variables = os.environ | {"HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"} | environment
    variables.pop("HF_HUB_CACHE", None)
    command = [sys.executable, "-c", PROBE, *names]
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_addresses_on_a_hub_and_offline(tmp_path):
    network = SRNetwork(replace(recipes.TINY, scale=2))
    network.save_pretrained(tmp_path / "repository")
    (tmp_path / "empty").mkdir()
    loaded = f"loaded 2 {network.head.weight.sum().item()}"
    names = ("hf:someone/tiny", "hf:someone/tiny@v1", "hf:someone/tiny@v9", "hf:someone/none", "hf:someone/empty")
    with hub_server.serve({"someone/tiny": tmp_path / "repository", "someone/empty": tmp_path / "empty"}) as (
        address,
        requests,
    ):
        lines = probe(tmp_path / "home", *names, HF_ENDPOINT=address)
        downloads = [line for line in requests if line.startswith("GET") and line.endswith("model.safetensors")]
    assert lines[:2] == [loaded, loaded]
    assert len(downloads) == 1  # the second revision is the same commit
    for line, message in zip(lines[2:], ("has no revision 'v9'", "no such repository", "holds no"), strict=True):
        assert line.startswith("refused hf:someone/"), line
        assert message in line

    gone = address  # nobody answers there any more
    assert probe(tmp_path / "home", "hf:someone/tiny", HF_ENDPOINT=gone, HF_HUB_OFFLINE="1") == [loaded]
    (line,) = probe(tmp_path / "home", "hf:someone/other", HF_ENDPOINT=gone, HF_HUB_OFFLINE="1")
    assert "not in the cache, and HF_HUB_OFFLINE is set" in line


@pytest.mark.slow  # huggingface_hub tries for half a minute
def test_a_hub_that_does_not_answer(tmp_path):
    (line,) = probe(tmp_path / "home", "hf:someone/other", HF_ENDPOINT="http://127.0.0.1:9")
    assert "http://127.0.0.1:9 cannot be reached" in line


@pytest.mark.parametrize("address", ["hf:", "hf:tiny", "hf:a/b/c", "hf:a b/c"])
def test_bad_addresses(address):
    with pytest.raises(UserError, match="hf:OWNER/NAME"):
        hub.download(address)


def test_importing_the_package_does_not_import_the_hub():
    code = "import sys, enlcn; enlcn.load('untrained:enlcn-tiny'); print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.strip() == "False", done.stderr


def test_without_huggingface_hub_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "import enlcn\n"
        "for act in (lambda n: n.save_pretrained(sys.argv[1]), lambda n: enlcn.load('hf:a/b')):\n"
        "    try:\n        act(enlcn.load('untrained:enlcn-tiny'))\n"
        "    except enlcn.UserError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "x"], capture_output=True, text=True, timeout=600)
    assert done.stdout.count("pip install 'enlcn[hub]'") == 2, done.stdout + done.stderr
