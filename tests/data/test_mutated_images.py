"""Damaged files by the thousand, read in a process of their own whose end and memory can be judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "mutated_images.py"
MEMORY_LIMIT_MEGABYTES = 2048


def judge(count: int, codec: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(SCRIPT), "--count", str(count), "--codec", codec]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, f"exit code {run.returncode}\n{run.stdout}\n{run.stderr}"
    result = json.loads(run.stdout)
    assert result["violations"] == []
    assert result["images"] + result["clean errors"] == count
    assert result["images"] > count / 20
    assert result["clean errors"] > count / 20
    assert result["peak_megabytes"] < MEMORY_LIMIT_MEGABYTES
    return run


def test_mutated_images_end_in_an_image_or_a_clean_error():
    run = judge(1_500, "vips")
    assert "CRITICAL" not in run.stderr


def test_mutated_images_with_the_fallback():
    judge(1_500, "pillow")


@pytest.mark.slow
def test_ten_thousand_mutated_images():
    judge(10_000, "vips")
    judge(10_000, "pillow")
