"""UpstreamState: the circuits of providers, whether these answer, and the attempts of plans.

ProviderHealth: which providers fail now, since when and why; and the log lines about it.
CircuitWatch: circuits of providers on routes without a plan.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING

import msgspec

from looptrap.dialect.model import Call
from looptrap.gateway.provider import Provider
from looptrap.gateway.upstream.circuit_sharing import CircuitSharing
from looptrap.gateway.upstream.failover_plan import CHAINED_DIALECTS
from looptrap.incident.event import OUTAGE_BUCKET_S, event_id
from looptrap.incident.model import AlertEvent
from looptrap.retry.breaker import (
    Breakers,
    BreakerState,
    CircuitChange,
    CircuitKey,
    CircuitOpening,
    CircuitPermits,
    Source,
    opening_from_change,
)
from looptrap.retry.classify import classify, classify_answer
from looptrap.retry.failure import Failure
from looptrap.store.redis import RedisStore
from looptrap.wire.exchange import UpstreamError
from looptrap.wire.header_fields import Field

if TYPE_CHECKING:
    from looptrap.gateway.relay import Relay
    from looptrap.gateway.upstream.routed_request import RoutedRequest

LOG_INTERVAL_S = 60.0
"""Seconds between two log lines of one kind about one provider."""

REPORTED_S = 900.0
"""Seconds after its latest failure for which a provider without calls is reported as failing."""

MIN_REPORTED_OPEN_S = 30.0
"""The circuit of one caller's credential must be open for so long to be reported."""

MAX_TRACKED_CIRCUITS = 8_192
"""Circuits that may be open; beyond it, those that have closed are dropped."""

log = logging.getLogger("looptrap")


class FailureRun(msgspec.Struct, gc=False):
    """The failures of a provider since its latest answer; times are in seconds since 1970."""

    since: float
    latest: float = 0.0
    reason: str = ""
    """Of the latest failure, in words."""
    count: int = 0
    is_of_key: bool = False
    """Whether the latest failure is that of the operator's key."""


class _LogState(msgspec.Struct, gc=False):
    failed_at: float = -inf
    """When a failure was logged …"""
    recovered_at: float = -inf
    """… and when a recovery was."""
    unreported: int = 0
    """Failures since the former."""


class ProviderHealth:
    """Counts failures in a row for each provider, and logs the first one and sums after it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._runs: dict[str, FailureRun] = {}
        self._log_states: dict[str, _LogState] = {}

    def failed(self, provider: str, reason: str, *, is_of_key: bool = False) -> None:
        """Take a failed call; log it, or once a minute how many there were."""
        now = self._clock()
        run = self._runs.setdefault(provider, FailureRun(now))
        run.latest, run.reason, run.is_of_key = now, reason, is_of_key
        run.count += 1
        state = self._log_states.setdefault(provider, _LogState())
        state.unreported += 1
        seconds = now - state.failed_at
        if seconds < LOG_INTERVAL_S:
            return
        if state.unreported == 1:
            log.warning("%s fails: %s", provider, reason)
        else:
            calls = f"{state.unreported:,} calls in {seconds:.0f} s"
            log.warning("%s fails: %s, the latest: %s", provider, calls, reason)
        state.failed_at, state.unreported = now, 0

    def answered(self, provider: str, *, has_operator_key: bool) -> bool:
        """Take an answer; return whether the provider works, for callers without a key too."""
        run = self._runs.get(provider)
        if run is None:
            return True
        if run.is_of_key and not has_operator_key:
            return False  # to a caller's own key
        del self._runs[provider]
        now, state = self._clock(), self._log_states[provider]
        state.unreported = 0
        if run.count > 1 and now - state.recovered_at >= LOG_INTERVAL_S:
            state.recovered_at = now
            calls, seconds = f"{run.count:,} failed calls", now - run.since
            log.warning("%s answers again, after %s in %.0f s", provider, calls, seconds)
        return True

    def failing(self) -> Iterator[tuple[str, FailureRun]]:
        """Yield the providers that fail now."""
        now = self._clock()
        for provider, run in list(self._runs.items()):
            if now - run.latest <= REPORTED_S:
                yield provider, run

    def reason(self, provider: str) -> str:
        """Return why the latest call of a provider failed; empty where it was answered."""
        run = self._runs.get(provider)
        return "" if run is None else run.reason


def refused_key(provider: Provider, status: int) -> str:
    """Return the reason for an answer to a call with the operator's key; empty where it is good."""
    if status not in (401, 403):
        return ""
    key = f" in {provider.key_name}" if provider.key_name else ""
    return f"status {status}, it refuses the key{key}"


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
        self.chance: Callable[[], float] = random.random
        self.sharing = CircuitSharing(store, self._learn) if store is not None else None
        self.health = ProviderHealth(wall_clock)
        self.watched: set[str] = set()
        """Circuits of providers whose latest call failed, or that are not closed."""
        self.changed_at: dict[str, float] = {}
        """When the circuits of providers changed, in seconds since 1970."""
        self._alert = alert
        self._wall_clock = wall_clock
        self._unclosed: set[CircuitKey] = set()

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
            self.changed_at[key.provider] = self._wall_clock()
            self.watched.add(key.provider)
        if len(self._unclosed) > MAX_TRACKED_CIRCUITS:
            self._unclosed = {key for key, _ in self.states()}


class CircuitWatch:
    """Lets calls of routes without a plan pass or refuses them, and takes their outcomes.

    While all providers answer, a call costs two look-ups in an empty set. From the first failure of
    a provider on, its calls are counted, and refused while its circuit is open for them, as those
    of routes with a plan are. Limits and other errors of clients (4xx) open no circuit.
    """

    def __init__(self, upstreams: UpstreamState) -> None:
        self.watched = upstreams.watched
        """Circuits with failures since their latest answer: empty while all is well."""
        self._upstreams = upstreams
        self._probes: dict[Relay, CircuitPermits] = {}

    def send(self, relay: Relay, provider: Provider, send: Callable[[], None]) -> None:
        """Send a call to a watched provider, unless its circuit is open for it."""
        if not _has_circuit(relay, provider):
            send()
            return
        upstreams = self._upstreams
        now = upstreams.clock()
        permit = upstreams.breakers.allow(provider.circuit, None, now, source_of(relay))
        if permit is None:
            self._refuse(relay, provider)
        elif permit.is_probe:
            upstreams.note(CircuitChange(key, "half_open") for key in permit.probed)
            upstreams.claim(permit, partial(self._on_claim, relay, provider, permit, send))
        else:
            send()

    def on_head(self, relay: Relay, status: int, headers: list[Field]) -> None:
        """Take the head of an answer that is an error, or that is a watched provider's."""
        provider, failure, reason = relay.provider, None, ""
        has_operator_key = relay.context.identity.uses_operator_key
        if status >= 500:
            failure = classify_answer(status, headers, b"", relay.now())
            if failure is not None and failure.trips == "provider":
                reason = f"status {status}"
        elif status >= 400:
            failure = Failure("permanent", f"http_{status}")
            if has_operator_key:
                reason = refused_key(provider, status)
        self._settle(relay, failure)
        if reason:
            self._upstreams.failed(provider, reason, is_of_key=status < 500)
        else:
            self._upstreams.answered(provider, has_operator_key=has_operator_key)

    def on_error(self, relay: Relay, error: UpstreamError) -> None:
        """Take that there is no answer, or no more of it."""
        failure = classify(error)
        self._settle(relay, failure)
        if failure.trips == "provider":
            self._upstreams.failed(relay.provider, str(error))

    def on_cancel(self, relay: Relay) -> None:
        """Take that the answer is no longer awaited."""
        permit = self._probes.pop(relay, None)
        if permit is not None:
            permit.abandon(self._upstreams.clock())
            self._upstreams.settled(permit, ())

    def _settle(self, relay: Relay, failure: Failure | None) -> None:
        """Count an outcome, None for a success; not one from before the circuit's latest change."""
        upstreams, provider = self._upstreams, relay.provider
        now = upstreams.clock()
        permit = self._probes.pop(relay, None)
        if permit is None:
            is_late = relay.sent_at < upstreams.changed_at.get(provider.circuit, 0.0)
            if is_late or not _has_circuit(relay, provider):
                return
            permit = upstreams.breakers.late_permit(provider.circuit, now, source_of(relay))
        if permit is not None:
            upstreams.settled(permit, permit.done(failure, now))

    def _on_claim(
        self,
        relay: Relay,
        provider: Provider,
        permit: CircuitPermits,
        send: Callable[[], None],
        is_ours: bool,
    ) -> None:
        """Make a probe if this instance may; the client may have disconnected."""
        now = self._upstreams.clock()
        if relay.is_over:
            permit.abandon(now)
            if is_ours:
                self._upstreams.settled(permit, ())
        elif is_ours:
            self._probes[relay] = permit
            relay.exchange.attempt(send)
        else:
            permit.deny(now)
            relay.exchange.attempt(partial(self._refuse, relay, provider))

    def _refuse(self, relay: Relay, provider: Provider) -> None:
        upstreams, circuit = self._upstreams, provider.circuit
        now = upstreams.clock()
        left = upstreams.breakers.retry_after(circuit, None, now, source_of(relay))
        seconds = max(1, ceil(left))
        reason = upstreams.health.reason(circuit)
        relay.fail(
            503,
            "breaker_open",
            f"{circuit} is left alone for {seconds} s after failures in a row"
            f"{f', the latest: {reason}' if reason else ''}.",
            headers=[provider.field, (b"X-Looptrap-Reason", b"breaker_open")],
            retry_after=seconds,
        )


def _has_circuit(relay: Relay, provider: Provider) -> bool:
    return provider.has_breaker and relay.call.dialect in CHAINED_DIALECTS


def source_of(relay: Relay) -> Source:
    """Return whose call it is, for circuits."""
    return Source(relay.context.identity.caller, partial(_conversation, relay.call))


def _conversation(call: Call) -> int:
    """Return a hash of the conversation: of the client's session, else of its first messages."""
    return hash(call.request.session or b"".join(call.raws[:2]))
