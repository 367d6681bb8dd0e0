"""How long to wait after a failure, and when to give up. Pure."""

from __future__ import annotations

from random import Random

FIRST = (1.0, 3.0, 10.0, 30.0)
"""Seconds before the first tries again: most failures are over in a moment."""
GROWING = 60.0
LONGEST = 3_600.0
LIFE = 72 * 3_600.0
"""Seconds for which an event is tried; receivers that are away for a weekend miss nothing."""
LONGEST_PAUSE = 60.0
"""Seconds for which a channel that fails rests: then one letter finds out whether it is back."""


def delay(failures: int, rng: Random) -> float:
    """Return the seconds to wait after so many failures in a row, the first being 1."""
    if failures <= len(FIRST):
        base = FIRST[max(failures, 1) - 1]
    else:
        base = min(LONGEST, GROWING * 2.0 ** min(failures - len(FIRST) - 1, 16))
    return min(LONGEST, base * rng.uniform(0.8, 1.2))


def is_over(created: float, due: float) -> bool:
    """Tell whether an event is too old to be tried at that time."""
    return due - created > LIFE
