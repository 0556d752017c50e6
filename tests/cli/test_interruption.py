"""A request to stop is obeyed, even where Python drops the exception that carries it."""

import logging
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from enlcn.data.image import Image
from enlcn.data.image_io import encode_image

PHOTO = Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"

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
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, preexec_fn=_heed_interrupts)
    assert done.returncode == 130, done.stderr
    assert done.stdout == "dropped\n"
    assert done.stderr.endswith("interrupted\n")


SLOW_IMPORT = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGTERM)
except KeyboardInterrupt:
    print("raised into the import", flush=True)
"""


def test_in_the_middle_of_an_import_it_ends_at_once(tmp_path):
    """What is raised there goes through C++ that is half set up: it aborted now and then."""
    (tmp_path / "slow_library.py").write_text(SLOW_IMPORT)
    code = "from enlcn import interruption; interruption.install(); import slow_library"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


# The program, with a line when it heeds signals.
HEEDING = """
from enlcn import __main__, interruption
install = interruption.install
interruption.install = lambda: (install(), print(flush=True))
__main__.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_whenever_it_comes_the_program_says_so_in_one_line(number, tmp_path):
    """From the moment its own code runs; Python itself takes some hundredths of a second before."""
    arguments = ["upscale", PHOTO, "-o", tmp_path / "o.png", "-m", "untrained:enlcn-x4"]  # a minute's work
    for tenths in range(0, 21, 4):
        process = subprocess.Popen(
            [sys.executable, "-c", HEEDING, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_heed_interrupts,
        )
        process.stdout.readline()
        time.sleep(tenths / 10)
        process.send_signal(number)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 130, said
        assert said.splitlines()[-1].startswith("interrupted")
        assert "Traceback" not in said
        assert list(tmp_path.iterdir()) == []


def _heed_interrupts():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_libvips_calls_back_for_warnings_alone(caplog):
    pytest.importorskip("pyvips")
    caplog.set_level(logging.DEBUG, "pyvips")
    encode_image(Image(np.zeros((64, 64, 3), np.uint8)), "png")
    said = [record.getMessage() for record in caplog.records]
    assert said, "its own steps are logged"
    assert [line for line in said if line.startswith("VIPS: ")] == []
