"""Nudges: what Looptrap itself says to a model, told from what users and tools say."""

from __future__ import annotations

NUDGE_MARK = "[looptrap]"
"""The first line of every nudge."""


def without_nudge(text: str) -> str:
    """Return a text without the nudge at its end."""
    start = text.find(NUDGE_MARK)
    return text if start < 0 else text[:start].rstrip()
