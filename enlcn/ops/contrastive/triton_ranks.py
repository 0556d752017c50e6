"""A row's term of L_cl and its gradient in one kernel: thresholds found by counting instead of a sort.

Which scores are among a row's c highest is all L_cl asks of a ranking, for three c. So the kernel holds a row in
registers and narrows an interval [low, high) until c scores lie at or above `low`, dividing it where c would be if
scores were spread evenly, or, where they are so unevenly that this takes long, in halves; every count on the way
narrows the intervals of all three. Scores that cannot be told apart share the places that are left, each a fraction.

A row is held in three parts, each padded to a power of two: 784 = 512 + 256 + 16 then wastes next to nothing.
"""

# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def"

import torch
import triton
import triton.language as tl
from torch import Tensor

# Scores lie in [-k, k]: so many halvings leave an interval as fine as float32.
_HALVINGS = 26
_GUESSES = 10  # before halving
MAX_POSITIONS = 16384
_NUMBERS_PER_LANE = 32
_SMALLEST_PART = 32


@triton.jit
def ranked_terms_kernel(
    scores_ptr,  # (rows, N) float32
    terms_ptr,  # (rows,) float32
    gradient_ptr,  # (rows, N); may be the scores
    num_positions,
    count,
    start,
    margin,
    floor,  # added to the sum over the irrelevant
    slope,  # factor of the gradient
    PAD_A: tl.constexpr,
    PAD_B: tl.constexpr,
    PAD_C: tl.constexpr,
    HINGE: tl.constexpr,
    HAS_FLOOR: tl.constexpr,
    HAS_GRADIENT: tl.constexpr,
    HALVINGS: tl.constexpr,
    GUESSES: tl.constexpr,
):
    """Program i: row i."""
    row = tl.program_id(0).to(tl.int64) * num_positions
    places_a = tl.arange(0, PAD_A)
    places_b = PAD_A + tl.arange(0, PAD_B)
    places_c = PAD_A + PAD_B + tl.arange(0, PAD_C)
    a = load_part(scores_ptr + row, places_a, num_positions)
    b = load_part(scores_ptr + row, places_b, num_positions)
    c = load_part(scores_ptr + row, places_c, num_positions)
    highest = tl.maximum(tl.maximum(tl.max(a, axis=0), tl.max(b, axis=0)), tl.max(c, axis=0))
    lowest = tl.minimum(lowest_of(a, places_a, num_positions, highest), lowest_of(b, places_b, num_positions, highest))
    lowest = tl.minimum(lowest, lowest_of(c, places_c, num_positions, highest))
    above = highest + tl.abs(highest) * 1e-6 + 1e-30  # no score reaches it

    end = start + count
    low_1, high_1, at_low_1, at_high_1, left_1 = lowest, above, num_positions, 0, HALVINGS + GUESSES
    low_2, high_2, at_low_2, at_high_2, left_2 = lowest, above, num_positions, 0, HALVINGS + GUESSES
    low_3, high_3, at_low_3, at_high_3, left_3 = lowest, above, num_positions, 0, HALVINGS + GUESSES
    searching = True
    while searching:
        open_3 = (at_low_3 != end) & (left_3 > 0)
        open_2 = (at_low_2 != start) & (left_2 > 0) & (open_3 == 0)
        open_1 = (open_3 == 0) & (open_2 == 0)
        low = tl.where(open_3, low_3, tl.where(open_2, low_2, low_1))
        high = tl.where(open_3, high_3, tl.where(open_2, high_2, high_1))
        at_low = tl.where(open_3, at_low_3, tl.where(open_2, at_low_2, at_low_1))
        at_high = tl.where(open_3, at_high_3, tl.where(open_2, at_high_2, at_high_1))
        left = tl.where(open_3, left_3, tl.where(open_2, left_2, left_1))
        wanted = tl.where(open_3, end, tl.where(open_2, start, count))
        share = (at_low - wanted).to(tl.float32) / tl.maximum(at_low - at_high, 1).to(tl.float32)
        share = tl.where(left > HALVINGS, tl.minimum(tl.maximum(share, 0.02), 0.98), 0.5)
        middle = low + share * (high - low)
        found = tl.sum((a >= middle).to(tl.int32), axis=0) + tl.sum((b >= middle).to(tl.int32), axis=0)
        found += tl.sum((c >= middle).to(tl.int32), axis=0)
        low_1, at_low_1, high_1, at_high_1 = narrowed(count, middle, found, low_1, at_low_1, high_1, at_high_1)
        low_2, at_low_2, high_2, at_high_2 = narrowed(start, middle, found, low_2, at_low_2, high_2, at_high_2)
        low_3, at_low_3, high_3, at_high_3 = narrowed(end, middle, found, low_3, at_low_3, high_3, at_high_3)
        left_3 -= open_3.to(tl.int32)
        left_2 -= open_2.to(tl.int32)
        left_1 -= open_1.to(tl.int32)
        searching = ((at_low_1 != count) & (left_1 > 0)) | ((at_low_2 != start) & (left_2 > 0))
        searching = searching | ((at_low_3 != end) & (left_3 > 0))

    share_1 = places_left(count, at_low_1, at_high_1)
    share_2 = places_left(start, at_low_2, at_high_2)
    share_3 = places_left(end, at_low_3, at_high_3)
    relevant_a = tl.exp(a - highest) * among_highest(a, low_1, high_1, share_1)  # exp is 0 where padded
    relevant_b = tl.exp(b - highest) * among_highest(b, low_1, high_1, share_1)
    relevant_c = tl.exp(c - highest) * among_highest(c, low_1, high_1, share_1)
    irrelevant_a = tl.exp(a - highest) * between(a, low_2, high_2, share_2, low_3, high_3, share_3)
    irrelevant_b = tl.exp(b - highest) * between(b, low_2, high_2, share_2, low_3, high_3, share_3)
    irrelevant_c = tl.exp(c - highest) * between(c, low_2, high_2, share_2, low_3, high_3, share_3)
    sum_relevant = tl.sum(relevant_a, axis=0) + tl.sum(relevant_b, axis=0) + tl.sum(relevant_c, axis=0)
    sum_irrelevant = tl.sum(irrelevant_a, axis=0) + tl.sum(irrelevant_b, axis=0) + tl.sum(irrelevant_c, axis=0)
    if HAS_FLOOR:
        sum_irrelevant += floor * tl.exp(-highest)
    term = tl.log(sum_irrelevant) - tl.log(sum_relevant) + margin
    if HINGE:
        slope = tl.where(term > 0, slope, 0.0)
        term = tl.where(term <= 0, 0.0, term)  # NaN stays
    tl.store(terms_ptr + tl.program_id(0), term)
    if HAS_GRADIENT:
        up = slope / sum_irrelevant
        down = slope / sum_relevant
        pointer = gradient_ptr + row
        tl.store(pointer + places_a, irrelevant_a * up - relevant_a * down, mask=places_a < num_positions)
        tl.store(pointer + places_b, irrelevant_b * up - relevant_b * down, mask=places_b < num_positions)
        tl.store(pointer + places_c, irrelevant_c * up - relevant_c * down, mask=places_c < num_positions)


@triton.jit
def load_part(pointer, places, num_positions):
    """Scores of a part, below all others where it is padded."""
    return tl.load(pointer + places, mask=places < num_positions, other=float("-inf"))


@triton.jit
def lowest_of(part, places, num_positions, highest):
    """The lowest score of a part; `highest` where it is empty."""
    return tl.min(tl.where(places < num_positions, part, highest), axis=0)


@triton.jit
def narrowed(wanted, middle, found, low, at_low, high, at_high):
    """[low, high) around the wanted-th highest score, given that `found` scores lie at or above `middle`."""
    is_low = (found >= wanted) & (middle > low)
    is_high = (found < wanted) & (middle < high)
    low, at_low = tl.where(is_low, middle, low), tl.where(is_low, found, at_low)
    high, at_high = tl.where(is_high, middle, high), tl.where(is_high, found, at_high)
    return low, at_low, high, at_high


@triton.jit
def places_left(wanted, at_low, at_high):
    """What each score in [low, high) gets of the places that those above leave."""
    return (wanted - at_high).to(tl.float32) / tl.maximum(at_low - at_high, 1).to(tl.float32)


@triton.jit
def among_highest(t, low, high, share):
    """1 for scores that have a place, 0 for those that have none, `share` in between."""
    return tl.where(t >= high, 1.0, tl.where(t >= low, share, 0.0))


@triton.jit
def between(t, low_2, high_2, share_2, low_3, high_3, share_3):
    """1 for the irrelevant: among the start + count highest, but not among the start highest."""
    return among_highest(t, low_3, high_3, share_3) - among_highest(t, low_2, high_2, share_2)


def ranked_terms(
    t: Tensor,
    count: int,
    start: int,
    *,
    margin: float,
    hinge: bool,
    floor: float,
    slope: float,
    gradient: Tensor | None,
) -> Tensor:
    """As `by_top_k.ranked_terms`, for contiguous float32 scores of up to MAX_POSITIONS."""
    rows, num_positions = t.shape[0] * t.shape[1], t.shape[2]
    terms = t.new_empty(t.shape[:2])
    pad_a, pad_b, pad_c = _parts(num_positions)
    with torch.cuda.device_of(t):
        ranked_terms_kernel[(rows,)](
            t,
            terms,
            t if gradient is None else gradient,
            num_positions,
            count,
            start,
            margin,
            floor,
            slope,
            PAD_A=pad_a,
            PAD_B=pad_b,
            PAD_C=pad_c,
            HINGE=hinge,
            HAS_FLOOR=floor > 0,
            HAS_GRADIENT=gradient is not None,
            HALVINGS=_HALVINGS,
            GUESSES=_GUESSES,
            num_warps=max(1, pad_a // (32 * _NUMBERS_PER_LANE)),
        )
    return terms


def _parts(num_positions: int) -> tuple[int, int, int]:
    """Powers of two that hold a row together: the largest not above it, the same for the rest, and what is left."""
    first = max(_SMALLEST_PART, 1 << (num_positions.bit_length() - 1))
    rest = max(1, num_positions - first)
    second = max(_SMALLEST_PART, 1 << (rest.bit_length() - 1))
    return first, second, max(_SMALLEST_PART, int(triton.next_power_of_2(max(1, rest - second))))
