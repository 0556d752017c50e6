import pytest
import torch

from enlcn.ops.hashed_attention import draw_rotations, hash_directions, hashed_attention
from enlcn.ops.softmax_attention import softmax_attention
from tests.ops.vectors import of_length


def oracle(q, k, v, rotations, bucket_size):
    """NLSA position by position, in plain loops."""
    n, rounds = q.shape[1], rotations.shape[0]
    buckets_of_n = n // bucket_size
    num_hashes = max(2, min(buckets_of_n + buckets_of_n % 2, 2 * rotations.shape[-1]))
    codes = hash_directions(k, rotations, num_hashes)[0]
    num_buckets = -(-n // bucket_size)
    outputs, strengths = torch.zeros(rounds, n, v.shape[-1]), torch.zeros(rounds, n)
    for r in range(rounds):
        order = sorted(range(n), key=lambda i: (codes[r, i].item(), i))
        bucket_of = {position: place // bucket_size for place, position in enumerate(order)}
        for i in range(n):
            near = {(bucket_of[i] + step) % num_buckets for step in (-1, 0, 1)}
            seen = [j for j in range(n) if bucket_of[j] in near]
            scores = k[0, seen] @ q[0, i]
            outputs[r, i] = torch.softmax(scores, 0) @ v[0, seen]
            strengths[r, i] = scores.logsumexp(0)
    return (outputs * torch.softmax(strengths, 0).unsqueeze(-1)).sum(0).unsqueeze(0)


@pytest.mark.parametrize("n", [1, 5, 8, 16, 17, 24, 61])
def test_against_plain_loops(n):
    q = of_length(6.0, 1, n, 8)
    k, v, rotations = of_length(1.0, 1, n, 8), torch.randn(1, n, 5), draw_rotations(8, 3)
    assert torch.allclose(hashed_attention(q, k, v, rotations, bucket_size=8), oracle(q, k, v, rotations, 8), atol=1e-5)


def test_everything_in_reach_is_exact_attention():
    q, k, v = of_length(6.0, 2, 30, 8), of_length(6.0, 2, 30, 8), torch.randn(2, 30, 5)
    out = hashed_attention(q, k, v, draw_rotations(8, 4), bucket_size=10)  # three buckets: all are neighbours
    assert torch.allclose(out, softmax_attention(q, k, v), atol=1e-5)


def test_hash_depends_on_direction_alone():
    k, rotations = torch.randn(1, 50, 8), draw_rotations(8, 2)
    codes = hash_directions(k, rotations, 16)
    assert codes.shape == (1, 2, 50)
    assert torch.equal(codes, hash_directions(k * 7.5, rotations, 16))
    assert torch.equal((codes + 8) % 16, hash_directions(-k, rotations, 16))


def test_gradients_reach_all_inputs():
    q, k, v = (torch.randn(1, 40, 4, requires_grad=True) for _ in range(3))
    hashed_attention(q, k, v, draw_rotations(4, 2), bucket_size=8).square().sum().backward()
    for t in (q, k, v):
        assert t.grad.isfinite().all()
        assert t.grad.abs().max() > 0
