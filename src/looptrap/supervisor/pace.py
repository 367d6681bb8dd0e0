"""How soon to start again what has ended."""

from __future__ import annotations

STEADY = 10.0
"""Seconds after which an end is an accident, no failure to start."""

FIRST, LONGEST = 0.1, 10.0
"""Seconds to wait after the first end that came too soon, and at most."""


class Pace:
    """Waits longer after each end that follows soon on a start: never a hot loop."""

    def __init__(self) -> None:
        self._hasty = 0

    def after(self, lived: float) -> float:
        """Return the seconds to wait after a life of so many seconds."""
        if lived >= STEADY:
            self._hasty = 0
            return 0.0
        pause = min(LONGEST, FIRST * 2.0 ** min(self._hasty, 30))
        self._hasty += 1
        return pause
