"""How a message says that it stands for an earlier part of the conversation."""

from __future__ import annotations

import re

SUMMARY_CHARS = 3_000
"""Characters at the beginning of a message in which it says that it is a summary."""

SUMMARY = re.compile(
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
    re.IGNORECASE | re.VERBOSE,
)
"""How a message says that it stands for an earlier part of the conversation."""
