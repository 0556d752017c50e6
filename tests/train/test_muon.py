import pytest
import torch

from enlcn.models.backbone import ENLCN
from enlcn.train.muon import Muon, orthogonalise, orthogonalise_naive
from enlcn.train.optimizers import inner_weights


def rate(value=0.01):
    return torch.tensor(value)


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 16, 144), (2, 40, 8), (2, 1, 5)])
def test_five_products_make_what_an_svd_makes_up_to_singular_values_near_one(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, exact = orthogonalise(matrices), orthogonalise_naive(matrices)
    values = torch.linalg.svdvals(ours)
    assert 0.6 < values.min() <= values.max() < 1.3
    # The same singular vectors: between the exact factors lies a positive diagonal.
    u, _, vt = torch.linalg.svd(matrices, full_matrices=False)
    between = u.mT @ ours @ vt.mT
    assert torch.allclose(between, torch.diag_embed(between.diagonal(dim1=1, dim2=2)), atol=1e-9)
    assert torch.allclose(u.mT @ exact @ vt.mT, torch.eye(between.shape[-1], dtype=torch.float64), atol=1e-9)


def test_nothing_orthogonal_comes_of_nothing():
    assert torch.equal(orthogonalise(torch.zeros(1, 4, 8)), torch.zeros(1, 4, 8))


def test_steps_are_those_of_torch():
    """torch's Muon takes matrices only, one after the other, and multiplies in bfloat16."""
    torch.manual_seed(0)
    ours = [torch.randn(8, 24), torch.randn(8, 24), torch.randn(12, 6)]
    theirs = [weight.clone() for weight in ours]
    mine = Muon(ours, rate())
    torchs = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    for _ in range(5):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        before = [weight.clone() for weight in ours]
        mine.step()
        torchs.step()
        for a, b, old in zip(ours, theirs, before, strict=True):
            assert (a - b).norm() < 0.05 * (a - old).norm()


def test_a_convolution_is_a_matrix_whatever_its_layout():
    gradient = torch.randn(8, 4, 3, 3)
    flat = torch.zeros(8, 36)
    flat.grad = gradient.permute(0, 2, 3, 1).reshape(8, 36)
    Muon([flat], rate()).step()
    for layout in (torch.contiguous_format, torch.channels_last):
        weight = torch.zeros(8, 4, 3, 3).contiguous(memory_format=layout)
        weight.grad = gradient.contiguous(memory_format=layout)
        Muon([weight], rate()).step()
        assert torch.allclose(weight.permute(0, 2, 3, 1).reshape(8, 36), flat, atol=1e-6)


def test_its_steps_are_as_long_as_adams():
    weight = torch.zeros(32, 288)
    weight.grad = torch.randn_like(weight)
    Muon([weight], rate()).step()
    assert weight.square().mean().sqrt().item() == pytest.approx(0.2 * 0.01, rel=0.2)
    twice = torch.zeros_like(weight)
    twice.grad = weight.grad
    Muon([twice], rate(), factor=2.0).step()
    assert torch.allclose(twice, 2 * weight)


def test_a_bad_step_leaves_weights_and_momentum():
    weight = torch.randn(4, 6)
    muon = Muon([weight], rate())
    muon.found_inf = torch.zeros(())
    weight.grad = torch.randn_like(weight)
    muon.step()
    before, momentum = weight.clone(), muon.state[weight]["momentum"].clone()
    weight.grad = torch.full_like(weight, float("nan"))
    muon.found_inf.fill_(1)
    muon.step()
    assert torch.equal(weight, before)
    assert torch.equal(muon.state[weight]["momentum"], momentum)
    weight.grad = torch.randn_like(weight)
    muon.found_inf.fill_(0)
    muon.step()
    assert torch.isfinite(weight).all()
    assert not torch.equal(weight, before)


def test_inner_weights_lie_between_features():
    network = ENLCN(scale=4, channels=8, num_blocks=2, attention_after=(0, 2))
    names = {id(weight): name for name, weight in network.named_parameters()}
    inner = {names[id(weight)] for weight in inner_weights(network)}
    left = set(names.values()) - inner
    assert {"upsampler.0.weight", "upsampler.2.weight", "body_end.weight"} <= inner
    assert {name for name in left if name.endswith("weight")} == {"head.weight", "upsampler.4.weight"}
    assert all(name.endswith(("weight", "bias")) for name in left)
