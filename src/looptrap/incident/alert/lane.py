"""One channel's way out: how much may be on it at once, and when it rests."""

from __future__ import annotations

import asyncio
from random import Random

from looptrap.incident.alert.backoff import LONGEST_PAUSE, delay
from looptrap.incident.alert.channel import Channel
from looptrap.incident.alert.failure import DeliveryError


class Lane:
    """A channel that fails rests, and then one letter alone finds out whether it is back."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.under_way = 0
        self.rests_until = 0.0
        self.stirred = asyncio.Event()
        """Something happened that may let a letter go."""
        self._failures = 0

    def room(self, now: float) -> int:
        """Return how many letters may go now."""
        if now < self.rests_until:
            return 0
        return (1 if self._failures else self.channel.at_once) - self.under_way

    def succeeded(self) -> None:
        """Send on at full speed."""
        self._failures = 0
        self.rests_until = 0.0

    def failed(self, error: DeliveryError, now: float, rng: Random) -> None:
        """Rest for a while, and for as long as the receiver asks."""
        if now >= self.rests_until:  # letters that fail side by side are one failure
            self._failures += 1
        pause = max(min(delay(self._failures, rng), LONGEST_PAUSE), error.retry_after or 0.0)
        self.rests_until = max(self.rests_until, now + pause)
