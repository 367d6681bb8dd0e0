"""Windows: the seconds in which hits count."""

from __future__ import annotations

from enum import StrEnum

import msgspec

HIT_LIMIT = 10_000
"""A key's hits are counted exactly up to here; no threshold may lie above."""


class WindowKind(StrEnum):
    """How a window moves."""

    ROLLING = "rolling"
    """Exactly the hits of the last `seconds`."""
    FIXED = "fixed"
    """Starts at the first hit and ends `seconds` later, whatever happens meanwhile."""
    REFRESHED = "refreshed"
    """Ends `seconds` after the latest hit: every hit extends it."""


class Window(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """How long hits of a rule count, and how that time moves."""

    seconds: float = 60.0
    kind: WindowKind = WindowKind.ROLLING
