"""How much memory there is, by what the system says; and which pictures are too large for it."""

import pytest
from PIL import Image

from enlcn.upscaling import memory
from enlcn.upscaling.batch_options import BatchOptions
from enlcn.upscaling.engine_options import SMALLEST_LIMIT, EngineOptions
from enlcn.upscaling.large import is_large
from enlcn.upscaling.target import Target

GIB = 2**30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A system whose files say what a test wants."""
    (tmp_path / "meminfo").write_text(f"MemTotal: {64 * 2**20} kB\nMemAvailable: {20 * 2**20} kB\n")
    monkeypatch.setattr(memory, "_SYSTEM", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUPS", tuple((tmp_path, *names) for _, *names in memory._CGROUPS))
    return tmp_path


def test_what_is_available_by_the_system(system):
    assert memory.available_memory() == 20 * GIB


def test_a_container_has_less_but_files_it_has_read_do_not_count(system):
    (system / "memory.max").write_text(f"{8 * GIB}\n")
    (system / "memory.current").write_text(f"{7 * GIB}\n")
    (system / "memory.stat").write_text(f"anon {GIB}\ninactive_file {5 * GIB}\n")
    assert memory.available_memory() == 6 * GIB
    (system / "memory.max").write_text("max\n")
    assert memory.available_memory() == 20 * GIB


def test_a_container_of_the_first_version(system):
    (system / "memory.limit_in_bytes").write_text(f"{4 * GIB}\n")
    (system / "memory.usage_in_bytes").write_text(f"{3 * GIB}\n")
    (system / "memory.stat").write_text(f"inactive_file 5\ntotal_inactive_file {GIB}\n")
    assert memory.available_memory() == 2 * GIB


def test_never_less_than_the_libraries_need(system):
    (system / "meminfo").write_text("MemAvailable: 5 kB\n")
    assert memory.available_memory() == SMALLEST_LIMIT


def test_a_system_without_meminfo_has_half_of_its_memory(system, monkeypatch):
    (system / "meminfo").unlink()
    monkeypatch.setattr(memory.os, "sysconf", {"SC_PHYS_PAGES": 4 * GIB // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert memory.available_memory() == 2 * GIB
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.available_memory() == 8 * GIB


def test_a_picture_is_large_when_it_and_its_result_take_a_quarter_of_the_limit(tmp_path):
    pytest.importorskip("pyvips")
    limit = SMALLEST_LIMIT
    side = int((limit / 4 / (3 * 2) / (1 + 2 * 4)) ** 0.5)  # input, and twice a result of four times its pixels
    options = BatchOptions(Target(scale=2), engine=EngineOptions(memory_limit=limit))
    for length, expected in ((side, False), (side + 2, True)):
        Image.new("L", (length, length)).save(tmp_path / "a.png")
        assert is_large(tmp_path / "a.png", options) is expected
    (tmp_path / "text.png").write_text("no picture")
    assert not is_large(tmp_path / "text.png", options)  # reading it will say what is wrong
