import json

import pytest

from enlcn.errors import UserError
from enlcn.plain_config import from_plain, to_plain
from enlcn.train.config import TrainConfig
from enlcn.train.recipes import RECIPES
from enlcn.train.settings import apply_settings, differences, setting_names


@pytest.mark.parametrize(
    ("setting", "read", "expected"),
    [
        ("data.batch_size=32", lambda c: c.data.batch_size, 32),
        ("total_steps=2e5", lambda c: c.total_steps, 200_000),
        ("seed=9007199254740993", lambda c: c.seed, 9007199254740993),  # which no float holds
        ("schedule.learning_rate=3e-4", lambda c: c.schedule.learning_rate, 3e-4),
        ("loss.num_rows=16", lambda c: c.loss.num_rows, 16),
        ("loss.num_rows=none", lambda c: c.loss.num_rows, None),
        ("data.augment=off", lambda c: c.data.augment, False),
        ("model.attention_after=0,4", lambda c: c.model.attention_after, (0, 4)),
        ("model.attention.amplification=4", lambda c: c.model.attention.amplification, 4.0),
        (" schedule.kind = cosine ", lambda c: c.schedule.kind, "cosine"),
        ("data.crop=46            # side of an LR crop.", lambda c: c.data.crop, 46),
    ],
)
def test_texts_become_typed_values(setting, read, expected):
    value = read(apply_settings(TrainConfig(), [setting]))
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "data.batchsize=3",
            r"unknown setting 'data.batchsize'; did you mean data.batch_size or .*\? --show lists all",
        ),
        ("seed=99999999999999999999999", "it must lie in 0 to"),
        ("total_steps=inf", "total_steps is 'inf'; expected a whole number"),
        ("loss.margin=nan", "loss.margin is 'nan'; expected a number"),
        ("schedule.learning_rate=inf", "schedule.learning_rate is 'inf'; expected a number"),
        ("optimizer.eps=-1", "optimizer.eps must be positive"),
        ("crop=3", r"unknown setting 'crop'; did you mean data.crop\?"),
        ("data=3", "unknown setting 'data'"),
        ("data.crop", "give key=value"),
        ("data.crop=big", "data.crop is 'big'; expected a whole number"),
        ("data.crop=2.5", "expected a whole number"),
        ("data.augment=maybe", "expected true or false"),
        ("loss.num_rows=few", "a whole number or none"),
        ("schedule.kind=linear", "choose from constant, halving, cosine"),
        ("loss.released_ranks=on data.crop=8", "at least 65 positions; data.crop is 8"),
        ("model.scale=5", "scale is 5; choose from 2, 3, 4"),
    ],
)
def test_mistakes_are_named(setting, message):
    with pytest.raises(UserError, match=message):
        apply_settings(TrainConfig(), setting.split())


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name):
    assert from_plain(TrainConfig, json.loads(json.dumps(to_plain(RECIPES[name])))) == RECIPES[name]


def test_unknown_fields_of_a_file_are_named():
    with pytest.raises(UserError, match=r"unknown setting .optimizer\.velocity."):
        from_plain(TrainConfig, {"optimizer": {"velocity": 0.9}})
    with pytest.raises(UserError, match=r"optimizer.beta1 is '0.9'; expected a number"):
        from_plain(TrainConfig, {"optimizer": {"beta1": "0.9"}})


def test_differences_are_dotted_names():
    changed = apply_settings(TrainConfig(), ["data.crop=46", "model.attention.kind=nla"])
    assert differences(TrainConfig(), changed) == ["model.attention.kind", "data.crop"]
    assert set(differences(TrainConfig(), changed)) <= set(setting_names(changed))


@pytest.mark.parametrize("order", [1, -1])
def test_settings_that_fit_together_come_in_any_order(order):
    settings = ["model.num_blocks=2", "model.attention_after=0,2"][::order]
    assert apply_settings(TrainConfig(), settings).model.attention_after == (0, 2)
