"""The shared store being away: people are told once, when that has lasted for a moment."""

from __future__ import annotations

from looptrap.incident.event import store_degraded
from looptrap.incident.model import Event
from looptrap.store.redis import RedisStore

LASTED = 2.0
"""Seconds that a store may be away before people are told."""


class Outage:
    """Looks at a store now and then."""

    def __init__(self, store: RedisStore | None) -> None:
        self._store = store
        self._since: float | None = None
        self._is_told = False

    def look(self, now: float) -> list[Event]:
        """Return what people are to be told."""
        if self._store is None or not self._store.is_degraded:
            self._since, self._is_told = None, False
            return []
        if self._since is None:
            self._since = now
        if self._is_told or now < self._since + LASTED:
            return []
        self._is_told = True
        return [store_degraded(self._since)]
