"""Growth: how much longer something takes when its input is longer. Ratios, never bare times."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMES = 8
"""Inputs are compared with ones so many times as long."""

MOST = 24.0
"""What is linear takes about 8 times as long, what is quadratic 64 times."""

NOTHING = 0.002
"""CPU seconds that nobody waits for: as long as the longer input takes less, all is well."""


def growth(
    run: Callable[[T], object], make: Callable[[int], T], *, size: int, rounds: int = 3
) -> float:
    """Return how many times as long `run` takes on an input of `TIMES` times the size.

    The least of several rounds counts: noise only ever adds. 0 where it takes no time to speak of.
    """
    longer = make(size * TIMES)
    taken = least(run, longer, 1)
    if taken < NOTHING:
        return 0.0
    if taken < 1.0:
        taken = min(taken, least(run, longer, rounds - 1))
    return taken / max(least(run, make(size), rounds + 2), 1e-6)


def least(run: Callable[[T], object], given: T, rounds: int) -> float:
    """Return the least CPU seconds of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.thread_time()
        run(given)
        best = min(best, time.thread_time() - began)
    return best
