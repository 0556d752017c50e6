"""A request to stop is obeyed, even where Python drops the exception that carries it."""

import logging
import signal
import subprocess
import sys

import numpy as np
import pytest

from enlcn.data.image import Image
from enlcn.data.image_io import encode_image

# A signal that arrives while a C library calls back: ctypes, as cffi does, prints what is raised there and goes on.
DROPPED = """
import ctypes, os, signal
from enlcn.cli import console

def command():
    bar = console.progress_bar()
    task = bar.add_task("work", total=2)
    bar.{tell}
    call_back = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.{name}))
    call_back()
    print("dropped", flush=True)
    bar.{tell}
    print("not obeyed", flush=True)

console.run_guarded(command)
"""


@pytest.mark.parametrize("tell", ["update(task, completed=1)", "advance(task)"])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_what_a_callback_drops_is_obeyed_with_the_next_progress(tell, name):
    program = [sys.executable, "-c", DROPPED.format(tell=tell, name=name)]
    # A shell's background jobs ignore SIGINT, and so would what they start.
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, preexec_fn=_heed_interrupts)
    assert done.returncode == 130, done.stderr
    assert done.stdout == "dropped\n"
    assert done.stderr.endswith("interrupted\n")


def _heed_interrupts():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_libvips_calls_back_for_warnings_alone(caplog):
    pytest.importorskip("pyvips")
    caplog.set_level(logging.DEBUG, "pyvips")
    encode_image(Image(np.zeros((64, 64, 3), np.uint8)), "png")
    said = [record.getMessage() for record in caplog.records]
    assert said, "its own steps are logged"
    assert [line for line in said if line.startswith("VIPS: ")] == []
