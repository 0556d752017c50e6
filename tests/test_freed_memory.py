"""Memory that tensors let go of is kept for the next ones, and given back when asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from enlcn import freed_memory

pytestmark = pytest.mark.skipif(freed_memory._glibc() is None, reason="needs glibc")

MIB = 2**20
PROBE = """
import json, resource, sys
import torch
from enlcn import freed_memory

def resident():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) * 1024

done = freed_memory.keep() if sys.argv[1] == "keep" else False
for _ in range(10):
    torch.ones(50 * 2**18)  # 50 MiB
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(50 * 2**18)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
kept, full = freed_memory.kept_bytes(), resident()
freed_memory.give_back()
print(json.dumps({"done": done, "faults": faults, "kept": kept, "given": full - resident(),
                  "kept_then": freed_memory.kept_bytes()}))
"""


def probe(way, **environment):
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PROBE, way]
    done = subprocess.run(command, env=others | environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(HUGE_PAGES.is_file() and "[always]" in HUGE_PAGES.read_text(), reason="large pages have few faults")
def test_pages_are_used_again():
    kept, plain = probe("keep"), probe("leave")
    assert kept["done"]
    assert not plain["done"]
    assert plain["faults"] > 9 * 50 * MIB / os.sysconf("SC_PAGE_SIZE")  # ten times 50 MiB
    assert kept["faults"] < plain["faults"] / 4


def test_what_is_kept_counts_as_available_and_can_be_given_back():
    told = probe("keep")
    assert told["given"] > 40 * MIB
    if freed_memory._glibc() is not None and hasattr(freed_memory._glibc(), "mallinfo2"):
        assert told["kept"] > 49 * MIB
        assert told["kept_then"] < MIB


@pytest.mark.parametrize("environment", [{"MALLOC_ARENA_MAX": "2"}, {"GLIBC_TUNABLES": "glibc.malloc.top_pad=4096"}])
def test_what_the_user_has_set_stays(environment):
    told = probe("keep", **environment)
    assert not told["done"]
    assert told["kept"] == 0


def test_what_is_kept_is_added_to_what_the_system_has(monkeypatch):
    from enlcn.upscaling import memory

    before = memory.available_memory()
    monkeypatch.setattr(freed_memory, "kept_bytes", lambda: 1000 * 2**30)
    assert memory.available_memory() > before + 900 * 2**30


def test_the_program_keeps_it():
    code = "import sys; sys.argv = ['enlcn', '--version']; from enlcn.cli import main, freed_memory\n"
    code += "try: main()\nfinally: print(freed_memory._is_kept)"
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", code], env=others, capture_output=True, text=True)
    assert done.stdout.split()[-1] == "True"
