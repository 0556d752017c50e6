"""Memory that tensors let go of is kept for the next ones, and given back when asked for."""

import json
import os
import subprocess
import sys

import pytest

from enlcn import freed_memory

pytestmark = pytest.mark.skipif(freed_memory._glibc() is None, reason="needs glibc")

MIB = 2**20
PROBE = """
import json, resource, sys
from concurrent.futures import ThreadPoolExecutor
import torch
from enlcn import freed_memory

def resident():
    return int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) * 1024

done = freed_memory.keep() if sys.argv[1] == "keep" else False

def faults_of_ten():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(100 * 2**18)  # 100 MiB, more than the heap of a thread holds
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def in_a_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()

told = {"done": done, "kept": [freed_memory.kept_bytes()]}
for way in (lambda function: function(), in_a_thread):
    way(faults_of_ten)
    told.setdefault("faults", []).append(way(faults_of_ten))
resident_before = resident()
told["kept"].append(freed_memory.kept_bytes())
freed_memory.give_back()
told["given"] = resident_before - resident()
told["kept"].append(freed_memory.kept_bytes())
tensor = torch.ones(100 * 2**18)
told["kept"].append(freed_memory.kept_bytes())
del tensor
told["kept"].append(freed_memory.kept_bytes())
torch.empty(300 * 2**18)  # never touched
told["kept"].append(freed_memory.kept_bytes())
print(json.dumps(told))
"""


def probe(way, **environment):
    others = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", PROBE, way]
    done = subprocess.run(command, env=others | environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def faults_are_pages():
    """Whether the system maps one small page at each fault; then ten times 100 MiB have as many as they have pages."""
    plain = probe("leave")["faults"]
    return min(plain) > 9 * 100 * MIB / os.sysconf("SC_PAGE_SIZE")


def test_pages_are_used_again_by_all_threads():
    if not faults_are_pages():
        pytest.skip("this system maps large pages, with few faults")
    told = probe("keep")
    assert told["done"]
    assert max(told["faults"]) < 100 * MIB / os.sysconf("SC_PAGE_SIZE")


def test_what_is_kept_is_what_the_heap_takes_and_nothing_lives_in():
    told = probe("keep")
    at_first, used, given_back, living, freed, untouched = told["kept"]
    assert at_first < 50 * MIB
    assert used > 99 * MIB
    assert told["given"] > 0.9 * used
    assert given_back < 10 * MIB
    assert living < 20 * MIB
    assert 99 * MIB < freed < 120 * MIB
    assert abs(untouched - freed) < 20 * MIB


@pytest.mark.parametrize("environment", [{"MALLOC_ARENA_TEST": "8"}, {"GLIBC_TUNABLES": "glibc.malloc.arena_test=8"}])
def test_what_the_user_has_set_stays(environment):
    told = probe("keep", **environment)
    assert not told["done"]
    assert max(told["kept"]) == 0
    if faults_are_pages():
        assert min(told["faults"]) > 9 * 100 * MIB / os.sysconf("SC_PAGE_SIZE")


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
