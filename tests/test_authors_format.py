import pytest
import torch
from torch.nn import functional as F

from enlcn import authors_format
from enlcn.checkpoint import load, read
from enlcn.errors import UserError
from tests.authors_weights import authors_state


def test_paper_size_layout_has_the_177_keys():
    state = authors_state(channels=256, num_blocks=32, every=8, features=128, width=64)
    assert len(state) == 177
    config = authors_format.infer_config(state)
    assert (config.num_blocks, config.channels, config.scale) == (32, 256, 4)
    assert config.attention_after == (0, 8, 16, 24, 32)
    assert (config.attention.num_features, config.attention.reduction) == (128, 4)
    assert config.attention.feature_eps == 1e-4
    pairs = authors_format.key_pairs(config)
    assert {theirs for theirs, _ in pairs} | {k for k in state if "_mean." in k} == set(state)
    for place in (0, 9, 18, 27, 36):
        assert f"body.{place}.attn_fn.projection_matrix" in dict(pairs)


@pytest.mark.parametrize("attention", ["enlca", "nlsa", "none"])
@pytest.mark.parametrize("scale", [2, 3, 4])
def test_round_trip_bit_for_bit(tmp_path, scale, attention):
    state = authors_state(scale=scale, attention=attention)
    torch.save(state, tmp_path / "theirs.pt")
    network = load(tmp_path / "theirs.pt")
    back = authors_format.from_ours(network.state_dict(), network.config)
    assert list(back) == list(state)
    assert all(torch.equal(back[key], state[key]) for key in state)


def test_network_computes_what_the_authors_code_computes(tmp_path):
    """Their forward pass, written out with plain functions on their keys."""
    state = {
        key: value * 0.1 if value.dim() == 4 and "mean" not in key else value for key, value in authors_state().items()
    }
    lr = torch.rand(1, 3, 7, 9)

    def conv(x, name, padding=1):
        return F.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], padding=padding)

    def features(u, matrix):  # (B, N, D) -> (B, N, M)
        exponent = u @ matrix.T - u.square().sum(-1, keepdim=True) / 2
        return (exponent.exp() + 1e-4) * matrix.shape[0] ** -0.5

    def attention(x, name):
        def embed(part):
            return F.normalize(conv(x, f"{name}.{part}", 0), dim=1, eps=5e-5).flatten(2).mT * 6**0.5

        matrix = state[f"{name}.attn_fn.projection_matrix"]
        phi_q, phi_k = features(embed("conv_match1.0"), matrix), features(embed("conv_match2.0"), matrix)
        v = conv(x, f"{name}.conv_assembly.0", 0).flatten(2).mT
        y = phi_q @ (phi_k.mT @ v) / (phi_q @ phi_k.sum(1).unsqueeze(-1))
        return y.mT.view_as(x) * 0.1 + x

    x = shallow = conv(conv(lr, "sub_mean", 0), "head.0")
    for index in range(11):
        if f"body.{index}.attn_fn.projection_matrix" in state:
            x = attention(x, f"body.{index}")
        else:
            x = x + 0.1 * conv(conv(x, f"body.{index}.body.0").relu(), f"body.{index}.body.2")
    x = conv(x, "body.11") + shallow
    for step in (0, 2):
        x = F.pixel_shuffle(conv(x, f"tail.0.{step}"), 2)
    expected = conv(conv(x, "tail.1"), "add_mean", 0)

    torch.save(state, tmp_path / "theirs.pt")
    with torch.no_grad():
        assert torch.allclose(load(tmp_path / "theirs.pt")(lr), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("wrapper", [None, "params", "params_ema", "state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module.", "model.", "net_g.module."])
def test_wrappers_and_prefixes(tmp_path, wrapper, prefix):
    state = authors_state()
    content = {prefix + key: value for key, value in state.items()}
    torch.save({wrapper: content, "epoch": 3} if wrapper else content, tmp_path / "w.pt")
    checkpoint = read(tmp_path / "w.pt")
    assert checkpoint.layout == "authors"
    assert torch.equal(checkpoint.state["head.weight"], state["head.0.weight"])


def test_ema_weights_are_preferred(tmp_path):
    plain, ema = authors_state(), authors_state()
    torch.save({"params": plain, "params_ema": ema}, tmp_path / "w.pt")
    assert torch.equal(read(tmp_path / "w.pt").state["head.weight"], ema["head.0.weight"])


def drop(state, key):
    del state[key]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda s: drop(s, "body.3.body.2.bias"), "missing key 'body.3.body.2.bias'"),
        (lambda s: drop(s, "body.11.weight"), "missing key 'body.11.weight'"),
        (lambda s: drop(s, "tail.1.weight"), "missing key 'tail.1.weight'"),
        (lambda s: drop(s, "add_mean.bias"), "missing key 'add_mean.bias'"),
        (lambda s: s.update({"body.99.extra": torch.zeros(1)}), "unexpected key 'body.99.extra'"),
        (lambda s: s.update({"tail.1.bias": torch.zeros(4)}), r"key 'tail.1.bias' has shape \(4,\), expected \(3,\)"),
        (
            lambda s: s.update({"body.5.conv_match1.0.weight": torch.zeros(8, 16, 1, 1)}),
            "'body.5.conv_match1.0.weight'",
        ),
        (lambda s: s.update({"sub_mean.weight": torch.ones(3, 3, 1, 1)}), "'sub_mean.weight' is not the plain mean"),
        (
            lambda s: s.update({"sub_mean.bias": s["sub_mean.bias"] * 255, "add_mean.bias": s["add_mean.bias"] * 255}),
            "0..255",
        ),
    ],
)
def test_first_bad_key_is_named(tmp_path, damage, message):
    state = authors_state()
    damage(state)
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(UserError, match=message):
        load(tmp_path / "w.pt")


def test_foreign_networks_are_refused(tmp_path):
    torch.save({"conv_first.weight": torch.zeros(3)}, tmp_path / "w.pth")
    with pytest.raises(UserError, match=r"unexpected key 'conv_first\.weight'"):
        load(tmp_path / "w.pth")


def test_networks_the_layout_cannot_hold_are_refused():
    from enlcn import recipes

    with pytest.raises(UserError, match="no place"):
        authors_format.from_ours({}, recipes.SMALL)
