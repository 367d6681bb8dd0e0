"""What all journeys share: circuits, tallies, time and chance."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from looptrap.gateway.upstream.circuit_sharing import CircuitSharing
from looptrap.incident.event import OUTAGE_BUCKET_S, event_id
from looptrap.incident.model import AlertEvent
from looptrap.retry.breaker import (
    Breakers,
    BreakerState,
    CircuitChange,
    CircuitKey,
    CircuitOpening,
    CircuitPermits,
    opening_from_change,
)
from looptrap.retry.failure import Failure
from looptrap.store.redis import RedisStore

if TYPE_CHECKING:
    from looptrap.gateway.upstream.routed_request import RoutedRequest


def breaker_opened_event(
    key: CircuitKey, seconds: float, now: float, caller: str = ""
) -> AlertEvent:
    """Return that a provider, or one credential there, is left alone for so many seconds.

    `caller` is the only one for whom it is; empty for everybody. Instances that notice together
    tell it as one.
    """
    credential = key.credential or ""
    whose = f" for {credential or caller}" if credential or caller else ""
    noticed = str(int(now // OUTAGE_BUCKET_S))
    return AlertEvent(
        id=event_id("breaker.opened", key.provider, credential or caller, noticed),
        name="breaker.opened",
        time=now,
        stage="opened",
        title=f"{key.provider} is left alone{whose} for {seconds:.0f} s after failures in a row",
        data={
            "provider": key.provider,
            "credential": credential,
            "caller": caller,
            "seconds": seconds,
        },
    )


MIN_REPORTED_OPEN_S = 30.0
"""Seconds for which one caller's credential is left alone before anybody else cares."""

MAX_TRACKED_CIRCUITS = 8_192
"""Circuits that may have been opened, until those that have closed meanwhile are forgotten."""

log = logging.getLogger("looptrap")


class UpstreamState:
    """Remembers how providers fared, over reloads too; counts what was asked of them."""

    def __init__(
        self,
        *,
        tell: Callable[[AlertEvent], None],
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
        self.waiting: set[RoutedRequest] = set()
        self.is_hurried = False
        """Whether nobody waits any more: the gateway is about to stop."""
        self.clock = clock
        self.chance = chance
        self.sharing = CircuitSharing(store, self._learn) if store is not None else None
        self._tell = tell
        self._wall_clock = wall_clock
        self._unclosed: set[CircuitKey] = set()

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

    def states(self) -> Iterator[tuple[CircuitKey, BreakerState]]:
        """Yield every circuit that is not closed."""
        now = self.clock()
        for key in list(self._unclosed):
            state = self.breakers.state(key, now)
            if state == "closed":
                self._unclosed.discard(key)
            else:
                yield key, state

    def left(self, key: CircuitKey) -> float:
        """Return for how many seconds a circuit is left alone."""
        return self.breakers.left(key, self.clock())

    # Circuits

    def claim(self, permit: CircuitPermits, then: Callable[[bool], None]) -> None:
        """Find out whether a probe is this instance's to make."""
        if self.sharing is None:
            then(True)
        else:
            self.sharing.claim(permit.probed, then)

    def note(self, changes: Iterable[CircuitChange]) -> None:
        """Take circuits that have changed: people and other instances hear of it."""
        for change in changes:
            self._watch(change.key)
            opening = opening_from_change(change)
            if opening is None:
                continue
            if change.key.credential is None or change.seconds >= MIN_REPORTED_OPEN_S:
                caller = change.caller or ""
                event = breaker_opened_event(change.key, change.seconds, self._wall_clock(), caller)
                log.warning("%s", event.title)
                self._tell(event)
            if self.sharing is not None:
                self.sharing.opened(opening)

    def settled(self, permit: CircuitPermits | None, changes: Iterable[CircuitChange]) -> None:
        """Take what an attempt did to its circuits; a probe that did not fail leaves its claim."""
        changes = list(changes)
        self.note(changes)
        if permit is not None and permit.is_probe and self.sharing is not None:
            opened = {one.key: one.seconds for one in changes if one.state == "open"}
            self.sharing.release(key for key in permit.probed if key not in opened)
            for key in permit.probed:
                if key in opened:
                    self.sharing.hold(key, opened[key])

    def broke_off(self, permit: CircuitPermits | None, failure: Failure) -> None:
        """Take that an answer broke off which had begun well: the provider may have died."""
        if permit is not None:
            self.note(permit.done(failure, self.clock()))

    def _learn(self, opening: CircuitOpening) -> None:
        self.breakers.learn(opening, self.clock())
        self._watch(opening.key)

    def _watch(self, key: CircuitKey) -> None:
        """Remember a circuit until it is closed: of breakers there are half as many at the most."""
        self._unclosed.add(key)
        if len(self._unclosed) > MAX_TRACKED_CIRCUITS:
            self._unclosed = {key for key, _ in self.states()}
