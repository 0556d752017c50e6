"""How threads of the CPU wait for each other: a moment awake, then asleep.

OpenMP's threads, which PyTorch computes with, wait for each other by spinning for milliseconds. That costs nothing on a
machine of our own; where other programs want the cores, those that spin keep them from the one that all wait for.
"""

import os
from collections.abc import MutableMapping

# Of GNU's OpenMP: some microseconds, enough between two layers.
_SPINS = "1000"


def let_threads_sleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set OpenMP's ways of waiting; to be called before torch is loaded. What the user has set stays."""
    if "OMP_WAIT_POLICY" in environment or "GOMP_SPINCOUNT" in environment:
        return
    environment["OMP_WAIT_POLICY"] = "passive"  # for all kinds of OpenMP; the next is the finer word for GNU's
    environment["GOMP_SPINCOUNT"] = _SPINS
