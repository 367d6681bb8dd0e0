"""Burn rate: the tokens that a session uses a minute, against what it mostly did."""

from __future__ import annotations

from looptrap.incident.indicator.model import PANES

SPAN = PANES // 5
"""Panes whose tokens are compared: a minute, where a window has five."""

LEAST = 10
"""Minutes with a call that must be over before others are compared with them, and that count.

No more than these: a history that grows is normal, however long it becomes.
"""

FLOOR = 20_000
"""Tokens a minute that nobody minds: below them nothing burns."""


class Burn:
    """The minutes of one session; those without a call do not count."""

    __slots__ = ("_before", "_mean", "_minutes", "began", "is_high", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        """In the minute that is open …"""
        self._before = 0
        """… and in the one before, from which nothing is learnt yet."""
        self.began = -1
        """The pane with which it began; -1 while there is none."""
        self.is_high = False
        self._mean = 0.0
        self._minutes = 0

    @property
    def mean(self) -> float:
        """Return the tokens of an earlier minute; 0 while too few are over."""
        return self._mean if self._minutes >= LEAST else 0.0

    def ratio(self) -> float:
        """Return how many times the mean both this minute and the one before have used.

        One alone says little: agents work in bursts.
        """
        mean, tokens = self.mean, min(self.tokens, self._before)
        return tokens / mean if mean and tokens >= FLOOR else 0.0

    def is_over(self, pane: int) -> bool:
        """Say whether the open minute is one with this pane, so that all of it is known."""
        return pane >= self.began + SPAN - 1

    def add(self, tokens: int, pane: int, most: float) -> None:
        """Take what a call used in a pane."""
        if self.began < 0:
            self.began = pane
        elif pane >= self.began + SPAN:
            self._close(most)
            self.began = pane
        self.tokens += tokens

    def _close(self, most: float) -> None:
        """Learn from a minute, as from one of at most `most` times the mean.

        So one that ran away does not hide the next, while what goes on is soon normal.
        """
        mean, tokens = self.mean, float(self._before)
        self._before, self.tokens = self.tokens, 0
        if tokens:
            self._minutes = min(self._minutes + 1, LEAST)
            self._mean += (min(tokens, most * mean or tokens) - self._mean) / self._minutes
