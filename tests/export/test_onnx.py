"""ONNX files: any size and batch, what they say of themselves, and `enlcn upscale -m out.onnx`."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

import enlcn
from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.data.image_io import to_float
from enlcn.data.testsets import find_testsets, load_pair
from enlcn.errors import UserError
from enlcn.export import cache, graph
from enlcn.export.onnx import export_onnx
from enlcn.models.backbone import SRNetwork
from enlcn.plain_config import to_plain
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.onnx_engine import onnx_image_bytes
from enlcn.upscaling.onnx_model import provider_of
from enlcn.upscaling.open_engine import open_engine


@pytest.fixture(scope="module")
def exported(attentive, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "attentive-x2.onnx"
    made = export_onnx(attentive, path, name="attentive-x2")
    assert made.difference < 1e-5
    return path


@pytest.fixture(scope="module")
def plain_file(plain, tmp_path_factory):
    path = tmp_path_factory.mktemp("plain") / "plain-x3.safetensors"
    save(plain, path)
    return path


@pytest.mark.parametrize("size", [(1, 3, 5, 9), (3, 3, 16, 11), (1, 3, 100, 90)])
def test_any_batch_height_and_width(exported, attentive, size):
    """100 x 90 has more positions than one chunk of the network's own attention."""
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    lr = torch.rand(size)
    with torch.inference_mode():
        expected = attentive(lr)
    (sr,) = session.run(["sr"], {"lr": lr.numpy()})
    assert sr.dtype == np.float32
    np.testing.assert_allclose(sr, expected.numpy(), atol=1e-5)


def test_the_file_says_what_it_is(exported, attentive):
    model = onnx.load(exported)
    onnx.checker.check_model(model, full_check=True)
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert said["scale"] == "2"
    assert json.loads(said["config"]) == json.loads(json.dumps(to_plain(attentive.config)))
    assert said["weights_sha256"] == graph.weights_digest(attentive)
    assert said["name"] == "attentive-x2"
    assert "Apache-2.0" in said["licence"]
    assert model.producer_name == "enlcn"
    assert model.opset_import[0].version == 18
    axes = [
        dim.dim_param or dim.dim_value
        for value in (model.graph.input[0], model.graph.output[0])
        for dim in value.type.tensor_type.shape.dim
    ]
    assert axes == ["batch", 3, "height", "width", "batch", 3, "2*height", "2*width"]


def test_half_precision_keeps_float32_pixels(attentive, tmp_path):
    path = tmp_path / "half.onnx"
    made = export_onnx(attentive, path, precision="fp16", opset=20)
    assert 0 < made.difference < 5e-3
    model = onnx.load(path)
    assert model.opset_import[0].version == 20
    weights = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims) == 4}
    assert TensorProto.FLOAT16 in weights
    value = model.graph.output[0].type.tensor_type
    assert value.elem_type == TensorProto.FLOAT
    picture = np.random.default_rng(0).integers(0, 256, (20, 14, 3), np.uint8)
    sr = enlcn.upscale(picture, model=path)
    assert np.abs(sr.astype(int) - enlcn.upscale(picture, model=attentive)).max() <= 1


@pytest.mark.parametrize("self_ensemble", [False, True])
def test_upscale_runs_it_as_it_runs_the_weights(exported, attentive, self_ensemble):
    picture = np.random.default_rng(0).integers(0, 65536, (19, 23, 4)).astype(np.uint16)
    expected = enlcn.upscale(picture, model=attentive, self_ensemble=self_ensemble)
    result = enlcn.upscale(picture, model=exported, self_ensemble=self_ensemble)
    assert result.shape == (38, 46, 4)
    # Where alpha is small, colours are divided by it: compare what is visible.
    visible = result[..., 3:].astype(float) / 65535
    assert np.abs((result.astype(float) - expected) * visible)[..., :3].max() <= 2
    assert np.abs(result.astype(int) - expected)[..., 3].max() <= 1


def test_command_line(exported, tmp_path):
    from PIL import Image

    Image.new("RGB", (12, 10), (200, 100, 50)).save(tmp_path / "a.png")
    command = [sys.executable, "-m", "enlcn", "upscale", tmp_path / "a.png", "-m", exported]
    report = ["--report", tmp_path / "r.json"]
    done = subprocess.run([*command, *report], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert Image.open(tmp_path / "a_x2.png").size == (24, 20)  # the scale is the file's own
    assert json.loads((tmp_path / "r.json").read_text())[0]["mode"] == "whole"
    refused = subprocess.run([*command, "--overwrite", "--mode", "streaming"], capture_output=True, text=True)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert ".safetensors" in refused.stderr


def test_what_does_not_fit_is_refused_in_one_line(exported):
    needed = onnx_image_bytes(replace(recipes.TINY, scale=2), 1000, 2000)
    engine = open_engine(str(exported), EngineOptions(memory_limit=max(needed // 2, 512 * 2**20)))
    with pytest.raises(UserError, match=r"2000x1000 needs about .* GiB .* streamed at any size"):
        engine.upscale(1000, 2000, lambda tile: pytest.fail("nothing is read"), lambda tile, sr: None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "bf16"}, "computes in fp32"),
        ({"engine": "torch"}, "PyTorch cannot run ONNX"),
        ({"mode": "streaming"}, "whole image at once"),
        ({"device": "mps"}, "choose from auto, cpu, cuda"),
        ({"engine": "tensorrt"}, "choose from auto, torch, onnxruntime"),
    ],
)
def test_bad_options(exported, options, message):
    with pytest.raises(UserError, match=message):
        enlcn.upscale(np.zeros((4, 4, 3), np.uint8), model=exported, **options)


def test_files_that_are_not_ours(tmp_path):
    foreign, broken = tmp_path / "foreign.onnx", tmp_path / "broken.onnx"
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, [1])],
    )
    onnx.save(helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), foreign)
    broken.write_bytes(b"no model")
    for path, message in (
        (foreign, "not written by `enlcn export`"),
        (broken, "cannot be opened as an ONNX model"),
        (tmp_path / "absent.onnx", "no such file"),
    ):
        with pytest.raises(UserError, match=message) as error:
            enlcn.upscale(np.zeros((4, 4, 3), np.uint8), model=path)
        assert "\n" not in str(error.value)


def test_refusals_come_before_the_work(plain, tmp_path):
    taken = tmp_path / "taken.onnx"
    taken.write_text("mine")
    for options, message in (
        ({"path": taken}, "--overwrite"),
        ({"path": tmp_path / "a.pb"}, "end in .onnx"),
        ({"path": tmp_path / "a.onnx", "opset": 9}, "choose from 18 to 23"),
        ({"path": tmp_path / "a.onnx", "precision": "int8"}, "choose from fp32, fp16"),
    ):
        with pytest.raises(UserError, match=message):
            export_onnx(plain, **options)
    hashed = SRNetwork(recipes.with_attention(recipes.TINY, kind="nlsa", amplification=None))
    with pytest.raises(UserError, match="no fixed graph"):
        export_onnx(hashed, tmp_path / "a.onnx")
    assert taken.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [taken]


def test_too_far_from_pytorch_leaves_no_file(plain, tmp_path, monkeypatch):
    monkeypatch.setitem(graph.TOLERANCES, "fp32", 0.0)  # float rounding alone is further away
    with pytest.raises(UserError, match="differs from PyTorch"):
        export_onnx(plain, tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []


def test_verify_sees_nan_and_wrong_sizes(plain):
    with pytest.raises(UserError, match="differs from PyTorch by nan"):
        graph.verify(plain, lambda lr: plain(lr) * float("nan"), "fp32")
    with pytest.raises(UserError, match=r"the export gives"):
        graph.verify(plain, lambda lr: plain(lr)[..., 1:], "fp32")


def test_engine_onnxruntime_exports_once_into_the_cache(plain, plain_file, tmp_path, monkeypatch):
    monkeypatch.setenv("ENLCN_CACHE", str(tmp_path / "cache"))
    picture = np.random.default_rng(0).integers(0, 256, (9, 8, 3), np.uint8)
    result = enlcn.upscale(picture, model=plain_file, engine="onnxruntime")
    assert np.abs(result.astype(int) - enlcn.upscale(picture, model=plain)).max() <= 1
    (file,) = (tmp_path / "cache" / "onnx").iterdir()
    written = file.stat().st_mtime_ns
    assert cache.cached_onnx(str(plain_file)) == file
    assert file.stat().st_mtime_ns == written
    other = SRNetwork(replace(plain.config, res_scale=0.5))  # the same weights mean another function
    other.load_state_dict(plain.state_dict())
    save(other, tmp_path / "other.safetensors")
    assert cache.cached_onnx(str(tmp_path / "other.safetensors")) != file


def test_without_the_packages_nothing_is_announced(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("ENLCN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with caplog.at_level("INFO"), pytest.raises(UserError, match="'export' extra"):
        cache.cached_onnx("untrained:enlcn-tiny-x2")
    assert "as ONNX" not in caplog.text


def test_set5_within_a_thousandth(data_dir, tmp_path):
    network = enlcn.load("enlcn-light-x4")
    export_onnx(network, tmp_path / "light.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "light.onnx", providers=["CPUExecutionProvider"])
    (testset,) = find_testsets("Set5", 4)
    assert len(testset.pairs) == 5
    for pair in testset.pairs:
        lr = to_float(load_pair(pair, 4)[0])
        with torch.inference_mode():
            expected = network(lr)
        (sr,) = session.run(None, {"lr": lr.numpy()})
        assert np.abs(sr - expected.numpy()).max() < 1e-3


def test_a_gpu_is_named_to_onnxruntime_by_its_number():
    assert provider_of("cpu") == ("CPUExecutionProvider", {})
    assert provider_of("cuda") == ("CUDAExecutionProvider", {})
    assert provider_of("cuda:1") == ("CUDAExecutionProvider", {"device_id": "1"})
