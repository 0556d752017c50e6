from dataclasses import replace

import pytest
import torch

from enlcn import recipes
from enlcn.attention_map import WEIGHINGS, attention_maps
from enlcn.errors import UserError
from enlcn.models.backbone import SRNetwork
from enlcn.ops.features import positive_features


def tiny(kind="enlca", **changes):
    config = replace(recipes.TINY.attention, kind=kind, **changes)
    return SRNetwork(replace(recipes.TINY, attention=config)).eval()


@pytest.mark.parametrize("weighing", WEIGHINGS)
def test_maps_are_weights(weighing):
    maps = list(attention_maps(tiny(), torch.rand(1, 3, 11, 14), (3, 2), weighings=[weighing]))
    assert [m.module for m in maps] == [1, 2, 3]
    for m in maps:
        assert m.weights.shape == (11, 14)
        assert (m.weights >= 0).all()
        assert m.weights.sum().item() == pytest.approx(1, abs=1e-4)
        assert 0 < m.focus <= 1


@pytest.mark.parametrize(
    ("kind", "own"), [("enlca", "exact"), ("nla", "exact"), ("nlsa", "hashed"), ("cca", "criss-cross")]
)
def test_each_kind_shows_its_own_weights(kind, own):
    network = tiny(kind, bucket_size=16)
    lr = torch.rand(1, 3, 9, 10)
    first = next(attention_maps(network, lr, (4, 5)))
    assert first.weighing == own
    if kind != "enlca":
        # The map explains the module's output at that pixel.
        with torch.no_grad():
            module, x = network.attentions[0], network.head(lr - network.rgb_mean)
            q, k = module.queries_keys(x)
            y = module.mix(q, k, x)[0, :, 5, 4]
            v = module.value(x)[0]
            assert torch.allclose((v * first.weights).sum((1, 2)), y, atol=1e-4)


def test_features_weigh_as_the_module_does():
    network = tiny()
    lr = torch.rand(1, 3, 6, 5)
    drawn = next(attention_maps(network, lr, (1, 2), weighings=["features"]))
    with torch.no_grad():
        module = network.attentions[0]
        q, k = module.queries_keys(network.head(lr - network.rgb_mean))
        scores = positive_features(q, module.projection)[0, 2 * 5 + 1] @ positive_features(k, module.projection)[0].T
    assert torch.allclose(drawn.weights.flatten(), scores / scores.sum(), atol=1e-5)


def test_criss_cross_sees_its_row_and_column_only():
    weights = next(attention_maps(tiny(), torch.rand(1, 3, 7, 8), (2, 3), weighings=["criss-cross"])).weights
    weights = weights.clone()
    weights[3, :] = 0
    weights[:, 2] = 0
    assert weights.abs().max() == 0


def test_gradients_stay_as_the_caller_has_them():
    maps = attention_maps(tiny(), torch.rand(1, 3, 7, 8), (0, 0))
    next(maps)
    assert torch.is_grad_enabled()


def test_chosen_modules():
    maps = attention_maps(tiny(), torch.rand(1, 3, 7, 8), (0, 0), modules=[2])
    assert [m.module for m in maps] == [2]


@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (tiny, {"point": (14, 0)}, "point 14,0 lies outside the image of 14x11 pixels"),
        (tiny, {"point": (0, -1)}, "outside"),
        (tiny, {"point": (0, 0), "modules": [4]}, "no attention 4: this network has 3"),
        (tiny, {"point": (0, 0), "weighings": ["guess"]}, "choose from exact, features, hashed, criss-cross"),
        (lambda: SRNetwork(replace(recipes.EDSR, channels=8, num_blocks=1)), {"point": (0, 0)}, "no attention to show"),
    ],
)
def test_bad_requests(network, options, message):
    with pytest.raises(UserError, match=message):
        attention_maps(network(), torch.rand(1, 3, 11, 14), **options)
