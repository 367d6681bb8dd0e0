"""UpstreamState: the circuits of providers, whether these answer, and the attempts of plans."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from looptrap.gateway.provider import Provider
from looptrap.gateway.upstream.circuit_sharing import CircuitSharing
from looptrap.gateway.upstream.provider_health import ProviderHealth
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

MIN_REPORTED_OPEN_S = 30.0
"""The circuit of one caller's credential must be open for so long to be reported."""

MAX_TRACKED_CIRCUITS = 8_192
"""Circuits that may be open; beyond it, those that have closed are dropped."""

log = logging.getLogger("looptrap")


def breaker_opened_event(
    key: CircuitKey, seconds: float, now: float, caller: str = "", reason: str = ""
) -> AlertEvent:
    """Return the alert for a provider, or one credential there, that is skipped for some seconds.

    `caller` is the only one for whom it is; empty for all. `reason` is that of the latest failure.
    Instances that notice it together report one alert.
    """
    credential = key.credential or ""
    whose = f" for {credential or caller}" if credential or caller else ""
    bucket = str(int(now // OUTAGE_BUCKET_S))
    return AlertEvent(
        id=event_id("breaker.opened", key.provider, credential or caller, bucket),
        name="breaker.opened",
        time=now,
        stage="opened",
        title=f"{key.provider} is left alone{whose} for {seconds:.0f} s after failures in a row"
        f"{f': {reason}' if reason else ''}",
        data={
            "provider": key.provider,
            "credential": credential,
            "caller": caller,
            "seconds": seconds,
            "reason": reason,
        },
    )


class UpstreamState:
    """Keeps the circuits of providers, also over reloads, and counts the attempts at them."""

    def __init__(
        self,
        *,
        alert: Callable[[AlertEvent], None],
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
        """… and those that were sent because another link had failed or was skipped."""
        self.breakers = Breakers()
        self.waiting: set[RoutedRequest] = set()
        self.is_stopping = False
        """Whether no request waits any more: the gateway is about to stop."""
        self.clock = clock
        self.chance = chance
        self.sharing = CircuitSharing(store, self._learn) if store is not None else None
        self.health = ProviderHealth(wall_clock)
        self.watched: set[str] = set()
        """Circuits of providers whose latest call failed, or that are not closed."""
        self._alert = alert
        self._wall_clock = wall_clock
        self._unclosed: set[CircuitKey] = set()
        self._changed: dict[str, float] = {}

    def start(self) -> None:
        """Begin to learn of circuits that other instances open."""
        if self.sharing is not None:
            self.sharing.start()

    async def stop(self) -> None:
        """Stop sharing circuits."""
        if self.sharing is not None:
            await self.sharing.stop()

    def wake_all(self) -> None:
        """End every wait, and begin no other: the gateway is about to stop."""
        self.is_stopping = True
        for routed_request in list(self.waiting):
            routed_request.wake()

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
        """Return the seconds until a circuit is probed."""
        return self.breakers.left(key, self.clock())

    # Providers

    def failed(self, provider: Provider, reason: str, *, is_of_key: bool = False) -> None:
        """Take a call that failed by a fault of a provider or its key; `reason` is for people."""
        self.watched.add(provider.circuit)
        self.health.failed(provider.circuit, reason, is_of_key=is_of_key)

    def answered(self, provider: Provider, *, has_operator_key: bool) -> None:
        """Take an answer of a watched provider."""
        works = self.health.answered(provider.circuit, has_operator_key=has_operator_key)
        if works and self.breakers.is_quiet(CircuitKey(provider.circuit), self.clock()):
            self.watched.discard(provider.circuit)

    def changed_at(self, circuit: str) -> float:
        """Return when a provider's circuit changed, in seconds since 1970; 0 if it never did."""
        return self._changed.get(circuit, 0.0)

    # Circuits

    def claim(self, permit: CircuitPermits, then: Callable[[bool], None]) -> None:
        """Call `then` with whether this instance may make a probe."""
        if self.sharing is None:
            then(True)
        else:
            self.sharing.claim(permit.probed, then)

    def note(self, changes: Iterable[CircuitChange]) -> None:
        """Take changed circuits: send alerts, and tell other instances."""
        for change in changes:
            self._track(change.key)
            opening = opening_from_change(change)
            if opening is None:
                continue
            if change.key.credential is None or change.seconds >= MIN_REPORTED_OPEN_S:
                caller = change.caller or ""
                reason = self.health.reason(change.key.provider)
                event = breaker_opened_event(
                    change.key, change.seconds, self._wall_clock(), caller, reason
                )
                log.warning("%s", event.title)
                self._alert(event)
            if self.sharing is not None:
                self.sharing.opened(opening)

    def settled(self, permit: CircuitPermits | None, changes: Iterable[CircuitChange]) -> None:
        """Take what an attempt did to its circuits; a failed probe keeps its claim."""
        changes = list(changes)
        self.note(changes)
        if permit is not None and permit.is_probe and self.sharing is not None:
            opened = {one.key: one.seconds for one in changes if one.state == "open"}
            for key in permit.probed:
                self.sharing.end_probe(key, opened.get(key, 0.0))

    def broke_off(self, permit: CircuitPermits | None, failure: Failure) -> None:
        """Take that an answer broke off after a good start: the provider may be down."""
        if permit is not None:
            self.note(permit.done(failure, self.clock()))

    def _learn(self, opening: CircuitOpening) -> None:
        self.breakers.learn(opening, self.clock())
        self._track(opening.key)

    def _track(self, key: CircuitKey) -> None:
        """Remember a circuit until it is closed; there are at most half as many breakers."""
        self._unclosed.add(key)
        if key.credential is None:
            self._changed[key.provider] = self._wall_clock()
            self.watched.add(key.provider)
        if len(self._unclosed) > MAX_TRACKED_CIRCUITS:
            self._unclosed = {key for key, _ in self.states()}
