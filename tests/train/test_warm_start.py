from dataclasses import replace
from pathlib import Path

import pytest
import torch

from enlcn import checkpoint, recipes
from enlcn.config import AttentionConfig
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.train.snapshot import RunFolder, is_snapshot
from enlcn.train.start import Job, train
from enlcn.train.warm_start import network_of, warm_start
from tests.train.conftest import TINY


def saved(tmp_path, config):
    torch.manual_seed(1)
    network = SRNetwork(config)
    checkpoint.save(network, tmp_path / "w.safetensors")
    return network, tmp_path / "w.safetensors"


def test_same_network_takes_everything(tmp_path):
    source, path = saved(tmp_path, TINY.model)
    torch.manual_seed(2)
    target = SRNetwork(TINY.model)
    assert warm_start(target, path) == []
    for name, value in source.state_dict().items():
        assert torch.equal(value, target.state_dict()[name])


def test_settings_that_no_weights_make_up_for_are_told(tmp_path, caplog):
    _, path = saved(tmp_path, TINY.model)
    warm_start(SRNetwork(TINY.model), path)
    assert caplog.text == ""
    attention = replace(TINY.model.attention, amplification=4.0, feature_eps=1e-4)
    warm_start(SRNetwork(replace(TINY.model, attention=attention, rgb_mean=(0.5, 0.5, 0.5))), path)
    assert "it does not begin by computing what" in caplog.text
    assert "model.attention.amplification was 6.0, is 4.0" in caplog.text
    assert "model.attention.feature_eps was 0.0, is 0.0001" in caplog.text
    assert "model.rgb_mean was (0.4488, 0.4371, 0.404), is (0.5, 0.5, 0.5)" in caplog.text
    caplog.clear()
    warm_start(SRNetwork(replace(TINY.model, attention=AttentionConfig(kind="none"), attention_after=())), path)
    assert caplog.text == ""


def test_another_scale_takes_all_but_the_tail(tmp_path):
    source, path = saved(tmp_path, replace(TINY.model, scale=4))
    torch.manual_seed(2)
    target = SRNetwork(TINY.model)
    tail = target.upsampler[0].weight.clone()
    assert warm_start(target, path) == ["upsampler.0.bias", "upsampler.0.weight"]
    assert torch.equal(target.upsampler[0].weight, tail)
    assert torch.equal(target.body_end.weight, source.body_end.weight)


def test_a_deeper_network_begins_where_a_shallower_one_ended(tmp_path):
    shallow, path = saved(tmp_path, replace(TINY.model, num_blocks=1, attention_after=(0, 1)))
    torch.manual_seed(2)
    deep = SRNetwork(replace(TINY.model, num_blocks=4, attention_after=(0, 3)))
    names = warm_start(deep, path)
    assert {name.rsplit(".", 2)[0] for name in names} == {
        "stages.0.blocks.1",
        "stages.0.blocks.2",
        "stages.1.blocks.0",
    }
    lr = torch.rand(1, 3, 9, 7)
    assert torch.equal(deep(lr), shallow(lr))
    new = deep.stages[0].blocks[1]
    assert new.conv1.weight.abs().min() > 0
    deep(lr).sum().backward()
    assert new.conv2.weight.grad.abs().max() > 0


def test_a_control_takes_all_but_the_attentions(tmp_path):
    config = replace(TINY.model, num_blocks=3, attention_after=(0, 2))
    source, path = saved(tmp_path, config)
    control = SRNetwork(replace(config, num_blocks=4, attention=AttentionConfig(kind="none"), attention_after=()))
    left_out = warm_start(control, path)
    assert left_out[:2] == ["stages.0.attention", "stages.1.attention"]
    assert {name.rsplit(".", 2)[0] for name in left_out[2:]} == {"stages.0.blocks.3"}
    for attention in source.attentions:
        attention.res_scale = 0.0  # gives what it is given
    lr = torch.rand(1, 3, 9, 7)
    assert torch.equal(control(lr), source(lr))
    checkpoint.save(control, tmp_path / "control.safetensors")
    with pytest.raises(UserError, match="cannot start from it: it has no attention, and the network has"):
        warm_start(source, tmp_path / "control.safetensors")


def test_fresh_weights_have_a_name():
    target = SRNetwork(recipes.TINY)
    state = torch.get_rng_state()
    assert warm_start(target, Path("untrained:enlcn-tiny")) == []
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(target.head.weight, checkpoint.load("untrained:enlcn-tiny").head.weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": 12}, "has shape"),
        ({"block_width": 12}, "has shape"),
        ({"attention": AttentionConfig(kind="nla")}, "has no 'stages.0.attention.projection'"),
        ({"upsampler": "stepwise"}, "its upsampler is stepwise, the network's direct"),
        ({"num_blocks": 3, "attention_after": (0, 3)}, "deeper: it has 3 residual blocks, the network has 2$"),
        ({"num_blocks": 3, "attention_after": (0, 2)}, "deeper: it has 3 residual blocks, the network has 2$"),
        ({"attention_after": (0, 1)}, "it has 'stages.1.blocks.0', for which the network has no place"),
        ({"attention_after": (0, 1, 2)}, "it has 3 attentions, the network has 2$"),
    ],
)
def test_another_network_is_refused(tmp_path, change, message):
    _, path = saved(tmp_path, replace(TINY.model, **change))
    with pytest.raises(UserError, match=f"w.safetensors: cannot start from it.*{message}"):
        warm_start(SRNetwork(TINY.model), path)


def test_weights_without_a_place_are_refused(tmp_path):
    """Exact attention has no F: what was learned with one would be thrown away."""
    _, path = saved(tmp_path, TINY.model)
    exact = SRNetwork(replace(TINY.model, attention=replace(TINY.model.attention, kind="nla")))
    with pytest.raises(UserError, match=r"it has 'stages.0.attention.projection', for which the network has no place"):
        warm_start(exact, path)


def test_a_training_checkpoint_gives_its_average_and_starts_a_run(tmp_path, pictures, cache):
    job = Job(TINY, pictures, tmp_path / "first", cache=cache, device="cpu", tensorboard=False)
    train(job)
    last = RunFolder(job.out).last
    assert is_snapshot(last)
    assert not is_snapshot(tmp_path / "absent.pt")
    target = SRNetwork(TINY.model)
    warm_start(target, last)
    assert torch.equal(target.head.weight, network_of(last).head.weight)

    other_scale = replace(TINY, model=replace(TINY.model, scale=3), total_steps=1)
    frozen = replace(other_scale, schedule=replace(TINY.schedule, learning_rate=1e-12))
    train(replace(job, config=frozen, out=tmp_path / "second", init=last))
    after = network_of(RunFolder(tmp_path / "second").last)
    assert torch.allclose(after.body_end.weight, target.body_end.weight, atol=1e-6)
