"""One text of an answer as it grows, and its latest stretch."""

from __future__ import annotations

import re

MAX_TAIL_CHARS = 8_192
"""Characters at an answer's end that are searched."""

FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})(.*)", re.MULTILINE)


class GrowingText:
    """Keeps the latest stretch of a text, and all of it where asked to."""

    __slots__ = ("_fresh", "_latest", "_whole", "pieces", "size")

    def __init__(self, *, keep: bool = False) -> None:
        self._latest = ""
        self._fresh = 0
        self._whole: list[str] | None = [] if keep else None
        self.pieces: list[str] = []
        """What has been said since `grow`; there is one for every event, so they are only kept."""
        self.size = 0
        """How many characters it has, those of `pieces` aside."""

    def grow(self) -> int:
        """Take in the pieces; return how many characters have come since the last look."""
        if self.pieces:
            said = "".join(self.pieces)
            self.pieces = []
            self.size += len(said)
            self._fresh += len(said)
            self._latest = tail_of(self._latest + said)
            if self._whole is not None:
                self._whole.append(said)
        return self._fresh

    def look(self) -> str:
        """Return the latest stretch."""
        self._fresh = 0
        return self._latest

    def whole(self) -> str:
        """Return all of a text that was to be kept."""
        self.grow()
        return "".join(self._whole or ())


def tail_of(text: str) -> str:
    """Return the end of a text, preceded by the code fence that is open there."""
    at = len(text) - MAX_TAIL_CHARS
    if at <= 0:
        return text
    while at and text[at - 1] in "`~":
        at -= 1
    fence = open_fence(text[:at])
    return f"{fence}\n{text[at:]}" if fence else text[at:]


def open_fence(text: str) -> str:
    """Return the fence of the code block that a text ends in; empty outside of one."""
    opened = ""
    if "```" in text or "~~~" in text:
        for fence, after in FENCE.findall(text):
            if not opened:
                opened = fence
            elif fence.startswith(opened) and not after.strip():
                opened = ""
    return opened
