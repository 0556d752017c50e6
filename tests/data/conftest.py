"""What tests of the data share: both codecs, a photograph, and no waiting for busy cores."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other after every small tensor are slow where cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def photo() -> np.ndarray:
    """A photograph (H, W, 3), uint8."""
    from skimage.data import astronaut

    return astronaut()[::4, 1::3]


@pytest.fixture(params=["vips", "pillow"])
def codec(request, monkeypatch) -> str:
    """Both codecs in turn: Pillow's takes over where pyvips cannot be imported."""
    if request.param == "pillow":
        monkeypatch.setitem(sys.modules, "pyvips", None)
    else:
        pytest.importorskip("pyvips")
    return request.param
