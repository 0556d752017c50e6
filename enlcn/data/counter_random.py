"""Random numbers that are a pure function of (seed, counter): SplitMix64 in integer tensor arithmetic.

What was drawn at a step never depends on what was drawn before it, so a resumed run, another number of processes
and another device all see the same numbers, and a draw can live inside a captured graph.
"""

import torch
from torch import Tensor


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    return (value & (1 << 64) - 1) - ((value >> 63 & 1) << 64)


_INCREMENT = _signed(0x9E3779B97F4A7C15)
_FIRST_FACTOR = _signed(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = _signed(0x94D049BB133111EB)


def splitmix64(seed: int, counter: Tensor) -> Tensor:
    """The (counter + 1)-th output of SplitMix64 from `seed`, as the int64 with those bits; any shape."""
    bits = (counter + 1) * _INCREMENT + _signed(seed)  # int64 wraps, as the algorithm wants
    bits = (bits ^ _shift_right(bits, 30)) * _FIRST_FACTOR
    bits = (bits ^ _shift_right(bits, 27)) * _SECOND_FACTOR
    return bits ^ _shift_right(bits, 31)


def uniform(seed: int, counter: Tensor) -> Tensor:
    """Uniform in [0, 1), float64, one number for each int64 of `counter`."""
    return _shift_right(splitmix64(seed, counter), 11).to(torch.float64) * 2.0**-53


def derive_seed(seed: int, *purpose: int) -> int:
    """A seed of its own for each purpose, in [0, 2^63), so that streams with one master seed have nothing in common."""
    for part in purpose:
        seed = int(splitmix64(seed, torch.tensor(part)))
    return seed & (1 << 63) - 1


def _shift_right(bits: Tensor, by: int) -> Tensor:
    """Logical shift: int64's own drags the sign along."""
    return (bits >> by) & ((1 << 64 - by) - 1)
