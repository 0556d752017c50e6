"""What tests share: few threads, fixed seeds, and the data folder."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

# Before torch is imported, here and in the processes that tests start: threads that wait by spinning take the cores
# from other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import pytest
import torch

from enlcn import freed_memory

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(1234)


@pytest.fixture(autouse=True)
def freed_memory_as_it_is(monkeypatch):
    """Settings of the process that a test would leave behind; tests of them have processes of their own."""
    monkeypatch.setattr(freed_memory, "keep", lambda *_: False)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small networks and tensors are slower on several threads, and much slower where other programs want the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def full_disk() -> Callable[..., AbstractContextManager[None]]:
    """A scope in which every file ends after so many bytes."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(size: int = 1000) -> Iterator[None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = os.environ.get("ENLCN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs benchmark data: set ENLCN_DATA to the folder that holds benchmarks/ and train/")
    return Path(folder)
