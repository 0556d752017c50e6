"""Threads of the CPU give the cores up to other programs."""

import os
import subprocess
import sys

import pytest


def settings_told(**environment):
    """What OpenMP says of itself, as it is loaded, in a run of the program."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    command = [sys.executable, "-m", "enlcn", "info", "untrained:enlcn-tiny"]
    environment = others | {"OMP_DISPLAY_ENV": "verbose"} | environment
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    told = (line.split(" = ", 1) for line in done.stderr.splitlines() if " = " in line)
    return {name.strip(): value.strip("'") for name, value in told}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}),
        ({"OMP_WAIT_POLICY": "active"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
    ],
)
def test_threads_sleep_soon_unless_told_otherwise(environment, expected):
    told = settings_told(**environment)
    if "GOMP_SPINCOUNT" not in told:
        pytest.skip("PyTorch computes with another OpenMP than GNU's here")
    assert told | expected == told
