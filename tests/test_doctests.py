"""Every example in a docstring runs."""

import doctest
import importlib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "enlcn"
WITH_EXAMPLES = sorted(p for p in PACKAGE.rglob("*.py") if ">>> " in p.read_text())


def test_there_are_examples():
    assert len(WITH_EXAMPLES) >= 3


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda p: p.stem)
def test_examples(path):
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    assert doctest.testmod(importlib.import_module(name)).failed == 0
