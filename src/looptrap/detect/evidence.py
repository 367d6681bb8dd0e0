"""Evidence: what a signal saw, in names, counts and lengths; never in prompt text."""

from __future__ import annotations

import msgspec


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """What repeats, how often, and since when."""

    signal: str
    """The scope or signal that saw it (`conversation`, `repeat`, …)."""
    what: str
    """What repeats, in words for a person: tool names, counts and lengths only."""
    count: int
    ago: int = 0
    """So many rounds ago it began; 0 for what is counted across requests."""
    confidence: float = 1.0
    """From 0 to 1: equal calls with equal results are sure, what is merely alike is less so."""
