"""What all journeys share: circuits, tallies, time and chance."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from looptrap.gateway.attempt.event import breaker_opened
from looptrap.gateway.attempt.sharing import CircuitSharing
from looptrap.incident.model import Event
from looptrap.retry.breaker import State
from looptrap.retry.breakers import Breakers, Change, Key, Opening, Permits, opening_of
from looptrap.retry.failure import Failure
from looptrap.store.redis import RedisStore

if TYPE_CHECKING:
    from looptrap.gateway.attempt.journey import Journey

WORTH_TELLING = 30.0
"""Seconds for which one caller's credential is left alone before anybody else cares."""

MOST_WATCHED = 8_192
"""Circuits that may have been opened, until those that have closed meanwhile are forgotten."""

log = logging.getLogger("looptrap")


class Dispatch:
    """Remembers how providers fared, over reloads too; counts what was asked of them."""

    def __init__(
        self,
        *,
        tell: Callable[[Event], None],
        store: RedisStore | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.attempts: Counter[str] = Counter()
        """Requests sent to each provider on routes with a plan …"""
        self.retries: Counter[str] = Counter()
        """… those that were further ones at the same link …"""
        self.failovers: Counter[str] = Counter()
        """… and those that came because another link had failed or was left alone."""
        self.breakers = Breakers()
        self.waiting: set[Journey] = set()
        self.is_hurried = False
        """Whether nobody waits any more: the gateway is about to stop."""
        self.clock = clock
        self.chance = chance
        self.sharing = CircuitSharing(store, self._learn) if store is not None else None
        self._tell = tell
        self._wall_clock = wall_clock
        self._unclosed: set[Key] = set()

    async def stop(self) -> None:
        """End."""
        if self.sharing is not None:
            await self.sharing.stop()

    def wake_all(self) -> None:
        """End every wait, and begin no other: the gateway is about to stop."""
        self.is_hurried = True
        for journey in list(self.waiting):
            journey.wake()

    def count(self, provider: str, *, is_retry: bool, is_failover: bool) -> None:
        """Count one attempt."""
        self.attempts[provider] += 1
        self.retries[provider] += is_retry
        self.failovers[provider] += is_failover

    def states(self) -> Iterator[tuple[Key, State]]:
        """Yield every circuit that is not closed."""
        now = self.clock()
        for key in list(self._unclosed):
            state = self.breakers.state(key, now)
            if state == "closed":
                self._unclosed.discard(key)
            else:
                yield key, state

    def left(self, key: Key) -> float:
        """Return for how many seconds a circuit is left alone."""
        return self.breakers.left(key, self.clock())

    # Circuits

    def claim(self, permit: Permits, then: Callable[[bool], None]) -> None:
        """Find out whether a probe is this instance's to make."""
        if self.sharing is None:
            then(True)
        else:
            self.sharing.claim(permit.probed, then)

    def note(self, changes: Iterable[Change]) -> None:
        """Take circuits that have changed: people and other instances hear of it."""
        for change in changes:
            self._watch(change.key)
            opening = opening_of(change)
            if opening is None:
                continue
            if change.key.credential is None or change.seconds >= WORTH_TELLING:
                caller = change.caller or ""
                event = breaker_opened(change.key, change.seconds, self._wall_clock(), caller)
                log.warning("%s", event.title)
                self._tell(event)
            if self.sharing is not None:
                self.sharing.opened(opening)

    def settled(self, permit: Permits | None, changes: Iterable[Change]) -> None:
        """Take what an attempt did to its circuits; a probe that did not fail leaves its claim."""
        changes = list(changes)
        self.note(changes)
        if permit is not None and permit.is_probe and self.sharing is not None:
            opened = {one.key: one.seconds for one in changes if one.state == "open"}
            self.sharing.release(key for key in permit.probed if key not in opened)
            for key in permit.probed:
                if key in opened:
                    self.sharing.hold(key, opened[key])

    def broke_off(self, permit: Permits | None, failure: Failure) -> None:
        """Take that an answer broke off which had begun well: the provider may have died."""
        if permit is not None:
            self.note(self.breakers.done(permit, failure, self.clock()))

    def _learn(self, opening: Opening) -> None:
        self.breakers.learn(opening, self.clock())
        self._watch(opening.key)

    def _watch(self, key: Key) -> None:
        """Remember a circuit until it is closed: of breakers there are half as many at the most."""
        self._unclosed.add(key)
        if len(self._unclosed) > MOST_WATCHED:
            self._unclosed = {key for key, _ in self.states()}
