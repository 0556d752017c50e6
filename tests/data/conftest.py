"""What tests of the data share: both codecs, a photograph, and no waiting for busy cores."""

import sys

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def always_one_thread(one_thread):
    """All tests of this folder run so."""


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
