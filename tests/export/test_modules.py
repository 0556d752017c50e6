"""EDSR's upsampler, whose last layers are computed as one, and gated blocks, in exported files of every kind."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from enlcn import recipes
from enlcn.export.onnx import export_onnx
from enlcn.export.torch_export import export_pt2
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.onnx_model import open_onnx

SIZES = ((1, 1), (1, 5), (5, 1), (9, 7))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("kind", ["onnx", "pt2"])
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_stepwise_upsamplers_at_any_size(scale, kind, precision, tmp_path):
    check(replace(recipes.EDSR, channels=8, num_blocks=1, scale=scale), kind, precision, tmp_path)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_gated_blocks_at_any_size(kind, precision, tmp_path):
    check(replace(recipes.TINY, block="gated", block_width=24), kind, precision, tmp_path)


def check(config, kind, precision, tmp_path):
    """An exported network is the network."""
    if kind == "onnx":
        pytest.importorskip("onnxruntime", reason="needs the onnx extra")
    torch.manual_seed(0)
    network = SRNetwork(config).eval()
    path = tmp_path / f"network.{kind}"
    export = {"onnx": export_onnx, "pt2": export_pt2}[kind]
    export(network, path, precision=precision)
    for height, width in SIZES:
        lr = torch.rand(2, 3, height, width)
        with torch.inference_mode():
            expected = network(lr)
            if kind == "pt2":
                sr = torch.export.load(path).module()(lr)
            else:
                (values,) = open_onnx(path, device="cpu").session.run(None, {"lr": np.asarray(lr)})
                sr = torch.from_numpy(values)
        tolerance = {"fp32": 1e-5, "fp16": 5e-3}[precision]
        torch.testing.assert_close(sr, expected, atol=tolerance, rtol=0)
