"""Polling: asking again and again whether something is done is honest work, for a while."""

from __future__ import annotations

import re

from looptrap.detect.change import LONGEST, words_of

_NAMES = re.compile(
    r"poll|wait|sleep|status|progress|heartbeat|health|(?:^|[_.-])(?:check|get|fetch|read|tail)"
    r"[_.-]?(?:job|task|run|build|deploy|logs?|output|state|queue|process|todos?)"
    r"|todo_?(?:read|list)",
    re.IGNORECASE,
)
_UNDER_WAY = re.compile(
    r"\b(?:running|pending|queued|in[ _-]?progress|processing|not (?:yet )?(?:ready|done|finished"
    r"|complete)|starting|waiting|scheduled|no new (?:output|messages|events|data)|still)\b",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:too many requests|rate[ _-]?limit(?:ed)?|overloaded|(?:temporarily|service) unavailable"
    r"|try again (?:later|in \d+)|retry[ _-]after)\b",
    re.IGNORECASE,
)
_WAITS = re.compile(
    r"\bsleep\s+\d|\bwait\b|\b(?:kubectl (?:get|rollout|describe)|docker (?:ps|logs|inspect)"
    r"|gh run|systemctl status|squeue|qstat|nvidia-smi|ps aux)\b"
    r'|"(?:chars|input|keys|keystrokes|command)":""'
)
"""In what a shell is given: waiting, and asking how something that runs by itself gets on.

Nothing at all is typed to see whether there is more to read.
"""

_STEPS = frozenset(
    "click press key tap scroll swipe step next back forward turn walk move go".split()
)

SHORT = 400
"""Only what a short result says about itself is taken as a state."""

NOD = 100
"""A result up to this long may be a mere "done"."""

_DIGEST = re.compile(r"\[\w+ [0-9a-f]{16}\]")
"""What stands for an image, or another part that is no text."""

PATIENCE = 4
"""So many unchanged polls weigh as much as one repeat of anything else."""


def is_poll(names: frozenset[str], arguments: str, result: str) -> bool:
    """Say whether a call asks for the state of something that goes on by itself, or waits."""
    read = [name[:LONGEST] for name in names]
    if any(map(_NAMES.search, read)) or _WAITS.search(arguments[:2_000]):
        return True
    return len(result) <= SHORT and _UNDER_WAY.search(result) is not None


def is_put_off(result: str) -> bool:
    """Say whether a result tells to come again later."""
    return len(result) <= SHORT and _LATER.search(result) is not None


def is_step(names: frozenset[str], result: str) -> bool:
    """Say whether a call makes one more step, and its result does not say where that led.

    Ten times "page down" are ten steps; an unchanged page that comes back is not such a result.
    """
    return (
        len(result) <= NOD
        and all(not _STEPS.isdisjoint(words_of(name)) for name in names)
        and _DIGEST.search(result) is None
    )
