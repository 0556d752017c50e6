import inspect
from dataclasses import dataclass, fields, is_dataclass

import pytest

from enlcn import config as network_config
from enlcn.train import config as train_config
from enlcn.train.config import TrainConfig
from enlcn.train.explain import attributes, explanations
from enlcn.train.settings import setting_names

KINDS = [
    kind
    for module in (network_config, train_config)
    for _, kind in inspect.getmembers(module, is_dataclass)
    if kind.__module__ == module.__name__
]


def test_every_setting_is_explained_in_one_line():
    told = explanations(TrainConfig)
    assert list(told) == list(setting_names(TrainConfig()))
    assert all(text.strip() and "\n" not in text for text in told.values())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_docstrings_list_the_fields_and_nothing_else(kind):
    assert list(attributes(kind)) == [field.name for field in fields(kind)]


def test_the_dataclasses_are_found():
    assert {kind.__name__ for kind in KINDS} >= {"AttentionConfig", "ModelConfig", "DataConfig", "TrainConfig"}


@dataclass
class Listed:
    """A heading: with a colon.

    Attributes:
        first, second: two at once: with a colon,
            and a second line.
        third: alone.

    fourth: no longer listed.
    """

    first: int = 0
    second: int = 0
    third: int = 0
    fourth: int = 0


@dataclass
class Single:
    """One.

    Attributes:
        only: of two
            lines.
    """

    only: int = 0


@dataclass
class Bare:
    field: int = 0


def test_shared_names_further_lines_and_the_end_of_the_list():
    both = "two at once: with a colon, and a second line."
    assert attributes(Listed) == {"first": both, "second": both, "third": "alone."}
    assert attributes(Single) == {"only": "of two lines."}
    assert attributes(Bare) == explanations(Bare) == {}
