"""spandrel, the real package, loads our files and the authors'; the ComfyUI node runs what it loads."""

import importlib
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import enlcn
from enlcn import recipes
from enlcn.checkpoint import save as save_ours
from enlcn.errors import UserError
from enlcn.export import infer
from enlcn.export import spandrel as ours
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling import memory
from enlcn.zoo import locate
from tests.authors_weights import authors_state
from tests.export import fake_torchvision

ROOT = Path(__file__).parents[2]
# Whose tensors say all of their shape: exact and criss-cross attention have the same ones.
TELLING = {
    f"{name}-x{scale}": replace(config, scale=scale)
    for name, config in recipes.NETWORKS.items()
    for scale in (2, 3, 4)
    if config.attention.kind not in ("nla", "cca") and config.attention.amplification != 1.0
}


@pytest.fixture(scope="module")
def spandrel():
    fake_torchvision.install()
    try:
        package = pytest.importorskip("spandrel", reason="pip install --no-deps spandrel einops")
        ours.register()
        yield package
    finally:
        fake_torchvision.remove()


@pytest.fixture(scope="module")
def loader(spandrel):
    return spandrel.ModelLoader()


@pytest.mark.parametrize("config", TELLING.values(), ids=TELLING)
def test_every_named_network_is_inferred_from_its_tensors(config):
    with torch.device("meta"):
        state = SRNetwork(config).state_dict()
    assert infer.infer_config(state) == config


def test_networks_without_a_name_are_inferred_too():
    config = replace(recipes.SMALL, channels=24, num_blocks=5, attention_after=(2,), scale=3)
    config = recipes.with_attention(config, reduction=3, num_features=40)
    with torch.device("meta"):
        state = SRNetwork(config).state_dict()
    assert infer.infer_config(state) == config
    with pytest.raises(UserError, match="unexpected key 'extra'"):
        infer.infer_config(state | {"extra": torch.zeros(1)})
    short = {key: value for key, value in state.items() if key != "stages.1.blocks.0.conv2.bias"}
    with pytest.raises(UserError, match=r"conv2\.bias' is missing"):
        infer.infer_config(short)


@pytest.mark.parametrize("scale", [2, 3, 4])
def test_bundled_weights(loader, spandrel, scale):
    model = loader.load_from_file(str(locate(f"enlcn-light-x{scale}")))
    network = enlcn.load(f"enlcn-light-x{scale}")
    assert isinstance(model, spandrel.ImageModelDescriptor)
    assert (model.architecture.id, model.purpose, model.scale) == ("ENLCN", "SR", scale)
    assert (model.input_channels, model.output_channels) == (3, 3)
    assert model.tags == ["64nf", "19nb", "3xenlca"]
    assert model.size_requirements.check(1, 1)
    assert model.tiling == spandrel.ModelTiling.INTERNAL
    assert model.model.config == network.config
    lr = torch.rand(1, 3, 17, 12)
    with torch.inference_mode():
        expected = network(lr).clamp(0, 1)
    torch.testing.assert_close(model(lr), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".ckpt"])
@pytest.mark.parametrize("wrapper", [None, "params_ema"])
def test_the_authors_files(loader, tmp_path, suffix, wrapper):
    path = tmp_path / f"authors{suffix}"
    state = {key: value * 0.1 if "mean" not in key else value for key, value in authors_state(scale=2).items()}
    torch.save({wrapper: state} if wrapper else state, path)
    model = loader.load_from_file(str(path))
    assert (model.architecture.id, model.scale) == ("ENLCN", 2)
    lr = torch.rand(1, 3, 9, 14)
    with torch.inference_mode():
        expected = enlcn.load(path)(lr).clamp(0, 1)
    torch.testing.assert_close(model(lr), expected, atol=1e-4, rtol=0)


def test_a_file_of_export_needs_no_inference(loader, tmp_path):
    """Amplification and residual scaling leave no trace in shapes; here they travel along."""
    config = recipes.with_attention(replace(recipes.TINY, res_scale=0.3), kind="cca", amplification=None, res_scale=0.7)
    network = SRNetwork(config).eval()
    ours.save(network, tmp_path / "a.safetensors", half=True)
    assert loader.load_from_file(str(tmp_path / "a.safetensors")).model.config == config
    assert enlcn.load(tmp_path / "a.safetensors").config == config  # still one of ours
    save_ours(network, tmp_path / "b.safetensors")
    with pytest.raises(UserError, match="look alike by their tensors"):
        ours.load(load_file(tmp_path / "b.safetensors"))
    with pytest.raises(UserError, match="--overwrite"):
        ours.save(network, tmp_path / "a.safetensors")


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_half_types(loader, dtype, atol):
    model = loader.load_from_file(str(locate("enlcn-light-x4"))).to(dtype)
    lr = torch.rand(1, 3, 10, 8)
    with torch.inference_mode():
        expected = enlcn.load("enlcn-light-x4")(lr).clamp(0, 1)
    result = model(lr.to(dtype))
    assert result.dtype == dtype
    torch.testing.assert_close(result.float(), expected, atol=atol, rtol=0)


def test_what_does_not_fit_is_streamed_with_the_same_result(attentive, monkeypatch):
    lr = torch.rand(2, 3, 70, 50)
    whole = ours.run(attentive, lr)
    monkeypatch.setattr(memory, "default_limit", lambda device: 1)
    steps = []
    streamed = ours.run(attentive, lr, lambda done, total: steps.append((done, total)))
    assert len(steps) > 10  # tiles, not strips
    torch.testing.assert_close(streamed, whole, atol=1e-5, rtol=0)


def test_others_are_left_alone(spandrel):
    registry = spandrel.ArchRegistry()
    ours.register(registry)
    ours.register(registry)
    assert len(registry) == 1
    with pytest.raises(spandrel.UnsupportedModelError):
        registry.load({"conv_first.weight": torch.zeros(3, 3, 3, 3)})
    edsr = authors_state(attention="none")
    with pytest.raises(spandrel.UnsupportedModelError):
        registry.load(edsr)
    known = [support.architecture.id for support in spandrel.MAIN_REGISTRY.architectures("detection")]
    assert known[0] == "ENLCN"
    assert {"ESRGAN", "SwinIR", "RCAN"} < set(known)


@pytest.fixture
def node(spandrel, monkeypatch):
    """The node's folder, in a ComfyUI of which only what the node asks for is there."""
    management, tools, comfy = (types.ModuleType(f"comfy{name}") for name in (".model_management", ".utils", ""))
    management.get_torch_device = lambda: torch.device("cpu")
    management.throw_exception_if_processing_interrupted = lambda: None
    seen = []

    class ProgressBar:
        def __init__(self, total):
            self.total = total

        def update_absolute(self, value):
            seen.append((value, self.total))

    tools.ProgressBar = ProgressBar
    comfy.model_management, comfy.utils = management, tools
    for module in (comfy, management, tools):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(str(ROOT / "integrations"))
    package = importlib.import_module("comfyui_enlcn")
    yield package, seen
    for name in [name for name in sys.modules if name.startswith("comfyui_enlcn")]:
        del sys.modules[name]


def test_the_comfyui_node(node, loader):
    package, seen = node
    assert package.NODE_CLASS_MAPPINGS.keys() == package.NODE_DISPLAY_NAME_MAPPINGS.keys()
    kind = package.NODE_CLASS_MAPPINGS["ENLCNUpscale"]
    assert list(kind.INPUT_TYPES()["required"]) == ["upscale_model", "image"]
    model = loader.load_from_file(str(locate("enlcn-light-x4")))
    pictures = np.random.default_rng(0).random((2, 12, 9, 4), np.float32)
    (result,) = getattr(kind(), kind.FUNCTION)(model, torch.from_numpy(pictures))
    assert result.shape == (2, 48, 36, 4)
    assert result.min() >= 0
    assert result.max() <= 1
    expected = enlcn.upscale(np.ascontiguousarray(pictures[1, ..., :3]), model="enlcn-light-x4")
    np.testing.assert_allclose(result[1, ..., :3].numpy(), expected, atol=1e-4)
    assert seen[-1] == (200, 200)
    with pytest.raises(ValueError, match="for ENLCN models"):
        kind().upscale(types.SimpleNamespace(model=torch.nn.Identity()), torch.from_numpy(pictures))


def test_without_spandrel_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "spandrel", None)
    with pytest.raises(UserError, match=r"enlcn\[spandrel\]"):
        ours.register()
