"""Estimates on real features: the stand-ins equal the operations they stand for, and errors go as theory says."""

import math

import pytest
import torch

import enlcn
from enlcn.models.rivals import NLA
from enlcn.ops.generalised_features import generalised_log_features
from enlcn.ops.linear_attention.naive import apply, summarise
from enlcn.reproduce.estimation import (
    ESTIMATORS,
    Replaced,
    attention_error,
    feature_attention,
    feature_weights,
    features_of,
    kernel_error,
    output_error,
)
from enlcn.reproduce.estimators import replace_estimator, without_attention

IID, ORTHOGONAL, GENERALISED, BEST = ESTIMATORS


@pytest.fixture(scope="module")
def network():
    return enlcn.load("enlcn-light-x4")


@pytest.fixture(scope="module")
def photo():
    generator = torch.Generator().manual_seed(3)
    coarse = torch.rand(1, 3, 5, 6, generator=generator)
    return torch.nn.functional.interpolate(coarse, (20, 22), mode="bicubic").clamp(0, 1)


@pytest.fixture(scope="module")
def features(network, photo):
    return features_of(network, photo)


def test_features_are_the_networks_own(network, features):
    assert len(features) == len(network.attentions)
    for each in features:
        torch.testing.assert_close(each.q.norm(dim=-1), torch.ones(20 * 22))
        torch.testing.assert_close(each.k.norm(dim=-1), torch.ones(20 * 22))
        assert each.v.shape == (20 * 22, network.config.channels)


def test_feature_attention_is_linear_attention(network, features):
    attention, each = network.attentions[1], features[1]
    q, k = math.sqrt(6) * each.q, math.sqrt(6) * each.k
    expected = apply(q[None], *summarise(k[None], each.v[None], attention.projection), attention.projection)[0]
    log_q, log_k = (generalised_log_features(u, attention.projection) for u in (q, k))
    torch.testing.assert_close(feature_attention(log_q, log_k, each.v), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(feature_weights(log_q, log_k) @ each.v, expected, rtol=1e-4, atol=1e-4)


def test_replaced_by_nothing_is_exact_attention(network):
    trained = network.attentions[0]
    exact = NLA(network.config.channels, reduction=4, amplification=trained.amplification, res_scale=trained.res_scale)
    for name in ("query", "key", "value"):
        getattr(exact, name).load_state_dict(getattr(trained, name).state_dict())
    x = torch.randn(1, network.config.channels, 9, 7)
    ours = Replaced(trained, None, num_features=8, generator=torch.Generator())
    torch.testing.assert_close(ours(x), exact(x))


def test_replaced_by_its_own_features_is_itself(network, photo):
    changed = replace_estimator(network, ORTHOGONAL, 128, seed=0)
    assert not torch.allclose(changed(photo), network(photo), atol=1e-5)  # another F, another picture
    for ours, trained in zip(changed.attentions, network.attentions, strict=True):
        ours.projection.copy_(trained.projection)
    with torch.no_grad():
        torch.testing.assert_close(changed(photo), network(photo), rtol=1e-3, atol=1e-4)


def test_measured_variance_is_proof_2_where_tails_are_light(features):
    found = kernel_error(features, 0.1, IID, num_features=16, draws=300)
    assert found["log10_measured"] == pytest.approx(found["log10_formula"], abs=0.05)
    assert found["log10_measured_relative"] == pytest.approx(found["log10_formula_relative"], abs=0.05)
    generalised = kernel_error(features, 0.1, GENERALISED, num_features=16, draws=300)
    assert generalised["log10_measured"] == pytest.approx(generalised["log10_formula"], abs=0.05)


def test_variance_grows_with_k_and_less_so_when_generalised(features):
    logs = {
        each.name: [
            kernel_error(features, k, each, num_features=128, draws=2)["log10_formula_relative"] for k in (1, 4, 8)
        ]
        for each in (IID, GENERALISED)
    }
    assert logs["iid"] == sorted(logs["iid"])
    assert all(better < worse for better, worse in zip(logs["generalised iid"], logs["iid"], strict=True))


def test_better_features_make_better_attention(features):
    error = {each.name: output_error(features, 3.0, each, num_features=64, draws=8) for each in ESTIMATORS}
    assert error[BEST.name]["output"] < error[IID.name]["output"]
    assert error[BEST.name]["weights"] < error[IID.name]["weights"] < 1
    many = output_error(features, 1.0, ORTHOGONAL, num_features=4096, draws=2)
    assert many["weights"] < 0.03


def test_attention_error_is_that_of_the_modules(network, photo, features):
    found = attention_error(network, [photo])
    errors = []
    for attention, each in zip(network.attentions, features, strict=True):
        q, k = math.sqrt(6) * each.q, math.sqrt(6) * each.k
        y = torch.softmax(q @ k.mT, -1) @ each.v
        estimated = attention.weigh(q[None], k[None], each.v[None], photo.shape[-2:])[0]
        errors.append(((estimated - y).norm() / y.norm()).item())
    assert found["output"] == pytest.approx(sum(errors) / len(errors), rel=1e-3)
    assert 0 < found["focus"] < 1


def test_without_attention_nothing_of_it_is_left(network, photo):
    skipped = without_attention(network)
    x = torch.randn(1, network.config.channels, 5, 5)
    torch.testing.assert_close(skipped.attentions[0](x), x)
    assert network.attentions[0].res_scale != 0
