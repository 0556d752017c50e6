import pytest

from enlcn.errors import did_you_mean

MODELS = ["enlcn-light-x2", "enlcn-light-x4", "edsr-x4"]


@pytest.mark.parametrize(
    ("name", "known", "question"),
    [
        ("Enlcn-Ligth-x4", MODELS, "did you mean enlcn-light-x4 or enlcn-light-x2? "),
        ("crop", ["data.crop", "seed"], "did you mean data.crop? "),
        ("train.crop", ["data.crop", "seed"], "did you mean data.crop? "),
        ("photo.png", MODELS, ""),
        ("anything", [], ""),
    ],
)
def test_the_nearest_names_are_asked_for(name, known, question):
    assert did_you_mean(name, known) == question


def test_no_more_than_wanted():
    assert did_you_mean("enlcn-ligth-x4", MODELS, most=1) == "did you mean enlcn-light-x4? "
