"""One text of an answer as it grows."""

from __future__ import annotations

from looptrap.detect.signals.chant import tail_of


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
