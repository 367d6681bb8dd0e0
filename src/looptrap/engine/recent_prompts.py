"""RecentPrompts: do prompts of one kind still bring anything new? Pure, and bounded.

A pipeline without history asks anew each time: with the draft of the answer before and a critic's
remark, with another complaint about the same answer, with its own summary to be summed up. No two
such prompts are equal, but all that changes in them was said in those before.
"""

from __future__ import annotations

import re
from collections import deque

from rapidfuzz.distance import Postfix, Prefix

from looptrap.bounded import RecentMap

HEAD_BYTES = 48
"""First bytes of a prompt by which prompts are of one kind."""

MAX_KINDS = 500
MAX_PROMPT_BYTES = 4_096
"""Longer prompts bring documents."""

RECENT_PROMPTS = 12
"""Prompts of a kind that are remembered."""

MAX_CHANGED_BYTES = 800
"""More than this between what two prompts begin and end with is new data."""

MIN_CHANGED_WORDS = 2
"""Words that must have changed: figures alone are what a prompt is about."""

MIN_STALE, MAX_STALE = 2, 4
"""Prompts without news, less two for each with news, from which a kind is stale; beyond the second
number they do not count: two prompts with news end it."""
NEWS_WEIGHT = 2

_PLACE = re.compile(
    rb"\b(?:line|ln|column|col|char|offset|position)s?\W{0,3}\d+|\d{4}-\d\d-\d\d|\d\d?:\d\d(?::\d\d)?"
)
"""Where a parser stopped, and when something was sent."""
_WORD = re.compile(rb"[0-9a-z_\x80-\xff]+")
_DIGIT = re.compile(rb"\d")


class _Kind:
    """The latest prompts with one beginning."""

    __slots__ = ("prompts", "stale")

    def __init__(self) -> None:
        self.prompts: deque[bytes] = deque(maxlen=RECENT_PROMPTS)
        self.stale = 0

    def add(self, prompt: bytes) -> None:
        """Compare a prompt with those before, and remember it."""
        before = self.prompts[-1] if self.prompts else b""
        if prompt in self.prompts or (before and prompt.endswith(before)):
            return  # samples, and retries that are counted as such
        if before and _brings_nothing_new(prompt, self.prompts):
            self.stale = min(self.stale + 1, MAX_STALE)
        else:
            self.stale = max(self.stale - NEWS_WEIGHT, 0)
        self.prompts.append(prompt)


class RecentPrompts:
    """The latest prompts of each kind, of calls without a history."""

    def __init__(self) -> None:
        self._kinds: RecentMap[int, _Kind] = RecentMap(lambda _: _Kind(), MAX_KINDS)

    def is_stale(self, sender: object, content: bytes, start: int) -> bool:
        """Return whether the latest prompts of a kind brought nothing new, this one included.

        The prompt begins at `start` of a normalised content.
        """
        if len(content) - start > MAX_PROMPT_BYTES:
            return False
        kind = self._kinds[hash((sender, content[: start + HEAD_BYTES]))]
        kind.add(content[start:])
        return kind.stale >= MIN_STALE


def _brings_nothing_new(prompt: bytes, before: deque[bytes]) -> bool:
    """Return whether all words that changed since the prompt before stand in the recent ones."""
    changed = _changed(prompt, before[-1])
    if len(changed) > MAX_CHANGED_BYTES:
        return False
    words = _WORD.findall(_PLACE.sub(b" ", changed))
    if sum(_DIGIT.search(word) is None for word in words) < MIN_CHANGED_WORDS:
        return False
    # Most prompts have a word that stands nowhere: a search for it is faster than to split all.
    if not all(any(word in other for other in before) for word in words):
        return False
    known = {word for other in before for word in _WORD.findall(_PLACE.sub(b" ", other))}
    return known.issuperset(words)


def _changed(prompt: bytes, before: bytes) -> bytes:
    """Return what of a prompt stands between what both begin and end with, in whole words."""
    start = Prefix.similarity(prompt, before)
    end = Postfix.similarity(prompt[start:], before[start:])
    stop = len(prompt) - end
    while start and prompt[start - 1 : start].isalnum():
        start -= 1
    while stop < len(prompt) and prompt[stop : stop + 1].isalnum():
        stop += 1
    return prompt[start:stop]
