"""Small smooth pictures in the usual layout, and a miniature that trains on them in a second."""

from dataclasses import replace

import pytest
import torch

from enlcn.reproduce.material import Material
from enlcn.reproduce.preset import PRESETS
from enlcn.reproduce.split import Sources
from tests.train.conftest import write_pictures

PRESET = replace(
    PRESETS["smoke"], crop=8, photo_side=12, test_crop=None, test_images=None, testsets=None, train_images=None, draws=4
)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def always_one_thread(one_thread):
    """All tests of this folder run so."""


@pytest.fixture(scope="session")
def sources(tmp_path_factory) -> Sources:
    """Five pictures to train on, two held out, a Set5."""
    folder = tmp_path_factory.mktemp("data")
    write_pictures(folder / "train" / "photos")
    write_pictures(folder / "train" / "val", count=2, size=(64, 72))
    write_pictures(folder / "benchmarks" / "Set5" / "HR", count=5, size=(56, 48))
    return Sources(folder, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def material(sources) -> Material:
    return Material(sources, PRESET, CPU)
