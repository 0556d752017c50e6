"""The programs that time training, in their tiny form: they run, and tell kernels apart."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(program, *arguments):
    command = [sys.executable, str(BENCHMARKS / program), "--device", "cpu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_authors_step_is_timed(tmp_path):
    done = run("train_gpu.py", "--tiny", "--groups", "paper", "--variants", "authors.*", "--out", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert row["ms_per_step"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--groups", "papr"], "unknown group 'papr'; choose from paper"),
        (["--variants", "none"], "--variants none is none of: authors' step; compiled"),
    ],
)
def test_what_is_not_there_is_told(tmp_path, arguments, message):
    done = run("train_gpu.py", "--tiny", "--out", tmp_path / "t.json", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_gated_blocks_are_timed(tmp_path):
    done = run("train_gpu.py", "--tiny", "--groups", "gated", "--variants", ".*PyTorch", "--out", tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert "failed" not in row, row
    alone = subprocess.run(
        [sys.executable, str(BENCHMARKS / "gate.py"), "--tiny"], capture_output=True, text=True, timeout=300
    )
    assert alone.returncode == 0, alone.stderr
    assert "naive: forward and backward: {'ms': " in alone.stdout


def test_kernels_of_a_step_are_listed():
    done = run("train_kernels.py", "--workload", "paper", "--tiny", "--most", 3)
    assert done.returncode == 0, done.stderr
    assert "in all" in done.stdout
    assert "convolution" in done.stdout


def test_kernels_are_told_apart_by_name(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    from train_kernels import kind_of

    assert {name: kind_of(name) for name in KERNELS} == KERNELS


# As PyTorch, cuDNN, cuBLAS, Triton and our own sources call them.
KERNELS = {
    "triton_poi_fused_convolution_relu_3": "compiled, point by point",
    "triton_red_fused__to_copy_convolution_backward_sum_7": "compiled, reducing",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor>": "optimizer",
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x256x64": "convolution",
    "sm90_xmma_wgrad_implicit_gemm_indexed_bf16bf16": "convolution",
    "nvjet_tst_128x64_64x9_4x1_v_bz_TNT": "matrix product",
    "ranked_terms_kernel": "L_cl",
    "summarise_kernel": "attention",
    "apply_kernel": "attention",
    "Memcpy DtoD (Device -> Device)": "copies",
    "elementwise": "other",
}
