"""Windows: how long hits count, and how that time moves."""

from __future__ import annotations

from enum import StrEnum

import msgspec

HIT_LIMIT = 10_000
"""A key's hits are counted exactly up to here; no threshold may be higher."""


class WindowKind(StrEnum):
    """How a window moves."""

    ROLLING = "rolling"
    """Exactly the hits of the last `seconds`."""
    FIXED = "fixed"
    """Starts at the first hit and ends `seconds` later, whatever happens meanwhile."""
    REFRESHED = "refreshed"
    """Ends `seconds` after the latest hit: every hit extends it."""
    STREAK = "streak"
    """Counts waves: hits whose calls overlap are one wave, and a wave that begins within `seconds`
    after the one before was answered continues the streak."""
    SERIAL = "serial"
    """Counts calls one after the other: none overlaps another, and each begins within `seconds`
    after the one before was answered, and within half of the time that this answer took."""

    awaits_answers: bool
    """Whether it counts from the end of an answer, which the store must be told."""

    def __init__(self, value: str) -> None:
        self.awaits_answers = value in ("streak", "serial")


MAX_TWINS = 16
"""Overlapping calls of one wave; each one more counts as a wave."""

MAX_CONTINUED = 16
"""Waves of a streak that are taken off, because the answer to a call of theirs was continued: a
run that begins again more often than that, in a row, is in a loop."""

STREAK_MEMORY_S = 900
"""Seconds for which a count in a row waits for an answer, and for the next call after the first."""


class Window(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """How long a rule's hits count, and how that time moves."""

    seconds: float = 60.0
    kind: WindowKind = WindowKind.ROLLING

    @property
    def memory(self) -> float:
        """Seconds for which a store remembers its latest hit."""
        return STREAK_MEMORY_S if self.kind.awaits_answers else self.seconds
