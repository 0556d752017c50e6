"""The kernels' tests, each file in a process of its own with Triton's interpreter in place of a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Triton is for Linux")
@pytest.mark.parametrize("name", ["contrastive", "gate", "enlca", "epilogues"])
def test_kernels_in_the_interpreter(name):
    """Triton decides when it is first imported, and other tests import it through torch.compile."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/ops/test_triton_{name}.py"]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]  # a parallel run's workers must not be mistaken for this one
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
