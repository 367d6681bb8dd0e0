"""Polling: asking again and again whether something is done is honest work, for a while."""

from __future__ import annotations

import re

_NAMES = re.compile(
    r"poll|wait|sleep|status|progress|heartbeat|health|(?:^|[_.-])(?:check|get|fetch|read|tail)"
    r"[_.-]?(?:job|task|run|build|deploy|logs?|output|state|queue|process)",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(
    r"\b(?:running|pending|queued|in[ _-]?progress|processing|not (?:yet )?(?:ready|done|finished"
    r"|complete)|starting|waiting|scheduled|no new (?:output|messages|events|data)|still)\b",
    re.IGNORECASE,
)
SHORT = 400
"""Only what a short result says about itself is taken as a state."""

PATIENCE = 4
"""So many unchanged polls weigh as much as one repeat of anything else."""


def is_poll(names: frozenset[str], result: str) -> bool:
    """Say whether a call asks for the state of something that goes on by itself."""
    if any(map(_NAMES.search, names)):
        return True
    return len(result) <= SHORT and _UNDER_WAY.search(result) is not None
