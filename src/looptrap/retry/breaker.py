"""Circuit breakers: after consecutive failures a provider or credential is skipped for a while.

closed ──(`threshold` failures in a row)──► open ──(`open_for` seconds)──► half-open
  ▲                                           ▲                               │
  └────────────── the one probe succeeds ─────┼───────────────────────────────┤
                                              └────────── it fails ───────────┘

The source of a failure matters: a prompt that makes a provider answer 500 says nothing about other
prompts. A circuit opens for those whose attempts failed: one conversation, or one caller when
several of its conversations failed. It opens for everyone when attempts of several callers failed,
or when a failure has no source. All others pass; their own consecutive failures widen the opening.

Pure: time is passed in and never runs backwards (a monotonic clock); changes are returned. Nothing
awaits inside, so one event loop needs no lock; threads hold one of their own around each call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cached_property
from math import inf
from typing import Literal, NamedTuple

import msgspec

from looptrap.errors import ConfigError
from looptrap.retry.failure import Failure

BreakerState = Literal["closed", "open", "half_open"]

MIN_OPEN_S = 1.0
MAX_OPEN_S = 60.0
"""Bounds of an opening by Retry-After; a breaker with a longer `open_for` is bounded by that."""

PROBE_RETRY_S = 1.0
"""Retry-After while a probe is in flight: its result decides, not the clock."""


class Source:
    """The source of an attempt: a caller, and one of its conversations."""

    def __init__(self, caller: str, find: Callable[[], Hashable]) -> None:
        """`find` returns the conversation's identity; it is called at the first failure only."""
        self.caller = caller
        self._find = find

    @cached_property
    def conversation(self) -> Hashable:
        """The identity of the conversation among those of the caller."""
        return self._find()


Blamed = dict[str, Hashable]
"""Callers, each with the one conversation that failed, or EVERY_CONVERSATION."""

EVERY_CONVERSATION = None


class Permit(msgspec.Struct, frozen=True, gc=False):
    """Permission for one attempt; handed back with its outcome."""

    generation: int
    is_probe: bool = False


class Breaker:
    """Counts consecutive failures, and decides which attempts may pass."""

    def __init__(
        self, threshold: int = 5, open_for: float = 60.0, least: float | None = None
    ) -> None:
        """Open for `open_for` seconds, or as a Retry-After says, but at least for `least`.

        A `least` of None is `open_for`: then no Retry-After shortens an opening.
        """
        if threshold < 1:
            raise ConfigError(f"breaker: threshold is {threshold}, must be 1 or more")
        if not 0 < open_for < inf:
            raise ConfigError(f"breaker: open_for is {open_for:g}, must be above 0")
        self._threshold = threshold
        self._open_for = open_for
        self._least = open_for if least is None else least
        self.is_transient = True
        """Whether its cause ends by itself, as a limit does and a spent quota does not."""
        self._failures = 0
        self._suspects: Blamed | None = {}  # sources of these failures; None for everyone
        self.blamed: Blamed | None = None
        """The sources it is open for; None for everyone."""
        self._is_open = False
        self._until = self._probed_until = -inf
        self._generation = 0
        self._permit = Permit(0)

    def state(self, now: float) -> BreakerState:
        """Return whether calls pass, are refused, or one may pass as a probe."""
        if not self._is_open:
            return "closed"
        return "open" if now < self._until else "half_open"

    def is_quiet(self, now: float) -> bool:
        """Return whether it is closed and the latest attempt that counted did not fail."""
        return not self._failures and self.state(now) == "closed"

    def applies_to(self, source: Source | None) -> bool:
        """Return whether it is open, or half-open, for that source."""
        if not self._is_open:
            return False
        return self.blamed is None or (source is not None and _is_among(self.blamed, source))

    def allow(self, now: float, source: Source | None = None) -> Permit | None:
        """Return a permit for one attempt, or None; half-open there is one at a time."""
        if not self._is_open or not self.applies_to(source):
            return self._permit
        if now < self._until or now < self._probed_until:
            return None
        # A probe that is never reported expires, or no attempt would ever pass again.
        self._probed_until = now + self._open_for
        self._new_generation()
        return Permit(self._generation, is_probe=True)

    def retry_after(self, now: float) -> float:
        """Return the seconds after which an attempt may pass; 0 when calls pass."""
        if not self._is_open:
            return 0.0
        if now < self._until:
            return self._until - now
        return max(0.0, min(self._probed_until - now, PROBE_RETRY_S))

    def done(
        self,
        permit: Permit,
        failed: bool | None,
        now: float,
        retry_after: float | None = None,
        *,
        is_transient: bool = True,
        source: Source | None = None,
    ) -> BreakerState | None:
        """Record an attempt's outcome, None for neither good nor bad; return a new state, if any.

        Outcomes of attempts from before the latest change are ignored. A failure without a source
        counts for everyone.
        """
        if permit.generation != self._generation:
            return None
        if failed is None:
            if permit.is_probe:
                self._end_probe(until=now)
            return None
        if not failed:
            self._reset_failures()
            return self._close() if permit.is_probe else None
        if permit.is_probe:
            # A probe counts for its caller only: others make their own attempts.
            blamed: Blamed | None = None
            if source is not None and self.blamed is None:
                blamed = {source.caller: EVERY_CONVERSATION}
            elif source is not None:
                blamed = _merge(self.blamed, {source.caller: source.conversation})
        else:
            self._failures += 1
            suspect = None if source is None else {source.caller: source.conversation}
            self._suspects = _merge(self._suspects, suspect)
            if self._failures < self._threshold:
                return None
            blamed = _merge(self.blamed, self._suspects) if self._is_open else self._suspects
        self.is_transient = is_transient
        seconds = self._open_for if retry_after is None else self._capped(retry_after)
        return self._open(now + max(self._least, seconds), blamed)

    def deny(self, permit: Permit, now: float) -> None:
        """Return an unused probe: another instance has one in flight."""
        if permit.is_probe and permit.generation == self._generation:
            self._end_probe(until=now + PROBE_RETRY_S)

    def learn(self, seconds: float, now: float, caller: str | None = None) -> BreakerState | None:
        """Open as another instance has, for that caller or for everyone; return a new state."""
        if not seconds > 0:
            return None
        was_open = self._is_open
        blamed: Blamed | None = None if caller is None else {caller: EVERY_CONVERSATION}
        if was_open:
            blamed = _merge(self.blamed, blamed)
        else:
            self.is_transient = True
        self._open(now + self._capped(seconds), blamed)
        return None if was_open else "open"

    def _capped(self, seconds: float) -> float:
        # Neither a provider nor another instance can keep a circuit open for long.
        return min(seconds, max(self._open_for, MAX_OPEN_S))

    def _open(self, until: float, blamed: Blamed | None) -> BreakerState:
        self._is_open = True
        self.blamed = blamed
        self._until = max(self._until, until)
        self._probed_until = -inf
        self._reset_failures()
        self._new_generation()
        return "open"

    def _close(self) -> BreakerState:
        self._is_open = False
        self._until = self._probed_until = -inf
        self._new_generation()
        return "closed"

    def _end_probe(self, *, until: float) -> None:
        self._probed_until = until
        self._new_generation()

    def _reset_failures(self) -> None:
        if self._failures:
            self._failures = 0
            self._suspects = {}

    def _new_generation(self) -> None:
        self._generation += 1
        self._permit = Permit(self._generation)


def _is_among(blamed: Blamed, source: Source) -> bool:
    if source.caller not in blamed:
        return False
    conversation = blamed[source.caller]
    return conversation is EVERY_CONVERSATION or conversation == source.conversation


def _merge(left: Blamed | None, right: Blamed | None) -> Blamed | None:
    """Merge two sets of sources: two conversations are the whole caller, two callers everyone."""
    if left is None or right is None:
        return None
    merged = dict(left)
    for caller, conversation in right.items():
        seen = merged.setdefault(caller, conversation)
        if seen != conversation:
            merged[caller] = EVERY_CONVERSATION
    return merged if len(merged) < 2 else None


UNREACHABLE = frozenset(("connection", "tls"))
"""Failures that do not depend on the request or its source."""


class CircuitKey(NamedTuple):
    """Which circuit: a provider's, or that of one credential there."""

    provider: str
    credential: str | None = None


class CircuitChange(msgspec.Struct, frozen=True, gc=False):
    """A change of a circuit's state."""

    key: CircuitKey
    state: BreakerState
    seconds: float = 0.0
    """How long it stays open …"""
    caller: str | None = None
    """… and for which caller; None for everyone."""
    is_shared: bool = True
    """Whether other instances are notified: not of that of a single conversation."""


class CircuitOpening(msgspec.Struct, frozen=True, gc=False):
    """An opened circuit as sent to other instances: seconds left, since no clock is shared."""

    key: CircuitKey
    seconds: float
    caller: str | None = None
    """None for everyone."""


class CircuitPermits(msgspec.Struct, frozen=True, gc=False):
    """Permits for one attempt: of a provider's circuit and, where limits count, a credential's."""

    keys: tuple[CircuitKey, ...]
    breakers: tuple[Breaker, ...]
    permits: tuple[Permit, ...]
    source: Source | None = None

    @property
    def is_probe(self) -> bool:
        """Whether the attempt probes a circuit."""
        return any(permit.is_probe for permit in self.permits)

    @property
    def probed(self) -> tuple[CircuitKey, ...]:
        """The circuits that the attempt probes."""
        both = zip(self.keys, self.permits, strict=True)
        return tuple(key for key, permit in both if permit.is_probe)

    def done(self, failure: Failure | None, now: float) -> tuple[CircuitChange, ...]:
        """Record the attempt's outcome, None for a success; return the circuits that changed.

        A failure counts against one circuit and says nothing about the other.
        """
        if failure is None:
            return self._settle(False, False, now)
        return self._settle(
            True if failure.trips == "provider" else None,
            True if failure.trips == "credential" else None,
            now,
            failure.retry_after,
            is_transient=failure.is_retryable,
            source=None if failure.reason in UNREACHABLE else self.source,
        )

    def abandon(self, now: float) -> None:
        """Return the permits of an attempt without an outcome, such as a cancelled one."""
        self._settle(None, None, now)

    def deny(self, now: float) -> None:
        """Return an unused probe: another instance holds the claim."""
        for breaker, permit in zip(self.breakers, self.permits, strict=True):
            breaker.deny(permit, now)

    def _settle(
        self,
        provider_failed: bool | None,
        credential_failed: bool | None,
        now: float,
        retry_after: float | None = None,
        *,
        is_transient: bool = True,
        source: Source | None = None,
    ) -> tuple[CircuitChange, ...]:
        changes: tuple[CircuitChange, ...] = ()
        for key, breaker, permit in zip(self.keys, self.breakers, self.permits, strict=True):
            if key.credential is None:
                state = breaker.done(permit, provider_failed, now, retry_after, source=source)
            else:
                state = breaker.done(
                    permit, credential_failed, now, retry_after, is_transient=is_transient
                )
            if state is not None:
                changes += (_change(key, state, breaker, now),)
        return changes


class Breakers:
    """A breaker for each provider and each credential; the least recently used are dropped."""

    def __init__(self, threshold: int = 5, open_for: float = 60.0, most: int = 4096) -> None:
        if most < 2:
            raise ConfigError(f"breakers: most is {most}, must be 2 or more (an attempt needs two)")
        Breaker(threshold, open_for)  # reports mistakes now, not at the first call
        self._threshold = threshold
        self._open_for = open_for
        self._most = most
        self._breakers: OrderedDict[CircuitKey, Breaker] = OrderedDict()

    def __len__(self) -> int:
        return len(self._breakers)

    def allow(
        self, provider: str, credential: str | None, now: float, source: Source | None = None
    ) -> CircuitPermits | None:
        """Return permits for one attempt when its circuits allow it, else None.

        Without a credential, only the provider's circuit counts: limits never refuse the attempt.
        With a `source`, its failures alone open the provider's circuit for no other.
        """
        key = CircuitKey(provider)
        breaker = self._of(key)
        permit = breaker.allow(now, source)
        if permit is None:
            return None
        if credential is None:
            return CircuitPermits((key,), (breaker,), (permit,), source)
        of_credential = CircuitKey(provider, credential)
        credential_breaker = self._of(of_credential)
        credential_permit = credential_breaker.allow(now)
        if credential_permit is None:
            breaker.done(permit, None, now)
            return None
        return CircuitPermits(
            (key, of_credential),
            (breaker, credential_breaker),
            (permit, credential_permit),
            source,
        )

    def late_permit(
        self, provider: str, now: float, source: Source | None = None
    ) -> CircuitPermits | None:
        """Return the permit of an attempt that was made without one; None if it is refused now."""
        if self._of(CircuitKey(provider)).applies_to(source):
            return None
        return self.allow(provider, None, now, source)

    def retry_after(
        self, provider: str, credential: str | None, now: float, source: Source | None = None
    ) -> float:
        """Return the seconds after which an attempt may be allowed; 0 when it is."""
        both = self._known(provider, credential)
        return max(
            one.retry_after(now) if one is not None and one.applies_to(source) else 0.0
            for one in both
        )

    def limited_for(
        self, provider: str, credential: str | None, now: float, source: Source | None = None
    ) -> float:
        """Return the seconds until a limit may be over; 0 unless only a limit refuses."""
        of_provider, of_credential = self._known(provider, credential)
        if of_credential is None or not of_credential.is_transient:
            return 0.0
        if of_provider is not None and of_provider.applies_to(source):
            return 0.0
        return of_credential.retry_after(now)

    def state(self, key: CircuitKey, now: float) -> BreakerState:
        """Return the state of one circuit."""
        breaker = self._breakers.get(key)
        return "closed" if breaker is None else breaker.state(now)

    def is_quiet(self, key: CircuitKey, now: float) -> bool:
        """Return whether one circuit is closed, without failures since the latest success."""
        breaker = self._breakers.get(key)
        return breaker is None or breaker.is_quiet(now)

    def left(self, key: CircuitKey, now: float) -> float:
        """Return the seconds after which one circuit may let an attempt through."""
        breaker = self._breakers.get(key)
        return 0.0 if breaker is None else breaker.retry_after(now)

    def learn(self, opening: CircuitOpening, now: float) -> CircuitChange | None:
        """Open a circuit as another instance has; return the change, if there is one."""
        breaker = self._of(opening.key)
        state = breaker.learn(opening.seconds, now, opening.caller)
        return None if state is None else _change(opening.key, state, breaker, now)

    def _of(self, key: CircuitKey) -> Breaker:
        breaker = self._breakers.get(key)
        if breaker is None:
            # Retry-After is reliable for a limit, not for an outage.
            least = None if key.credential is None else min(MIN_OPEN_S, self._open_for)
            breaker = self._breakers[key] = Breaker(self._threshold, self._open_for, least)
            if len(self._breakers) > self._most:
                self._breakers.popitem(last=False)
        else:
            self._breakers.move_to_end(key)
        return breaker

    def _known(
        self, provider: str, credential: str | None
    ) -> tuple[Breaker | None, Breaker | None]:
        get = self._breakers.get
        of_credential = None if credential is None else get(CircuitKey(provider, credential))
        return get(CircuitKey(provider)), of_credential


def _change(key: CircuitKey, state: BreakerState, breaker: Breaker, now: float) -> CircuitChange:
    blamed = breaker.blamed if state == "open" else None
    seconds = breaker.retry_after(now)
    if blamed is None:
        return CircuitChange(key, state, seconds)
    ((caller, conversation),) = blamed.items()
    return CircuitChange(key, state, seconds, caller, conversation is EVERY_CONVERSATION)


def opening_from_change(change: CircuitChange) -> CircuitOpening | None:
    """Return what to send to other instances about a change; None for nothing."""
    if change.state != "open" or not change.is_shared:
        return None
    return CircuitOpening(change.key, change.seconds, change.caller)
