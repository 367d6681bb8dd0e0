"""What was seen lately, for a moment's thought: a memory that forgets by halves."""

from __future__ import annotations

MOST = 20_000


class Recent:
    """Remembers texts for one to two spans of time, and at most twice `MOST` of them."""

    __slots__ = ("_old", "_span", "_until", "_young")

    def __init__(self, span: float = 60.0) -> None:
        self._span = span
        self._until = 0.0
        self._young: dict[bytes, None] = {}
        self._old: dict[bytes, None] = {}

    def has_seen(self, text: bytes, now: float) -> bool:
        """Say whether a text was seen before, and remember it."""
        if now >= self._until or len(self._young) >= MOST:
            is_stale = now >= self._until + self._span
            self._old, self._young = {} if is_stale else self._young, {}
            self._until = now + self._span
        is_known = text in self._young or text in self._old
        self._young[text] = None
        return is_known
