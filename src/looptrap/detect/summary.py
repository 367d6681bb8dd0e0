"""How a message says that it stands for an earlier part of the conversation."""

from __future__ import annotations

import re

SUMMARY_CHARS = 3_000
"""Characters at the beginning of a message in which it says that it is a summary."""

_SUMMARY = re.compile(
    r"""
      \bsummar(?:y|ies|i[sz]ed|i[sz]ation)\b
    | \bcompact(?:ed|ion)\b | \bcondens(?:ed|ation)\b | \bstate[ _-]snapshot\b
    | \b(?:continued|continuing|continuation|carr(?:ied|ying)\ over)\b.{0,40}\b(?:from|of)\b
    | \b(?:previous|prior|earlier|preceding)\ (?:conversation|context|session|messages|history
        |turns|steps|work)\b
    | \b(?:done|did|happened|completed|progress|work|conversation|know|learned|tried)\b.{0,20}
        \bso\ far\b
    | \bhand-?off\b | \bcontext\ (?:window|limit|was|has\ been|ran)\b | \brecap\b
    """,
    re.VERBOSE,
)
_HINTS = (
    *("summar", "compact", "condens", "snapshot", "continu", "carried over", "carrying over"),
    *("previous ", "prior ", "earlier ", "preceding ", "so far", "handoff", "hand-off"),
    *("context ", "recap"),
)
"""One of these stands in every such message: a search for them is far faster."""


def is_summary(text: str, chars: int = SUMMARY_CHARS) -> bool:
    """Return whether a text says, at its beginning, that it stands for earlier messages."""
    start = text[:chars].lower()
    return any(hint in start for hint in _HINTS) and _SUMMARY.search(start) is not None
