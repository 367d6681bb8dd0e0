"""Breakers by provider and by credential: one tenant's limit never closes the road for all."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from looptrap.errors import ConfigError
from looptrap.retry.breaker import (
    EVERY_CONVERSATION,
    SHORTEST_OPENING,
    Breaker,
    Permit,
    Source,
    State,
)
from looptrap.retry.failure import Failure

UNREACHABLE = frozenset(("connection", "tls"))
"""Failures that have nothing to do with what was asked, or who asked."""


class Key(NamedTuple):
    """Which circuit: a provider's, or that of one credential there."""

    provider: str
    credential: str | None = None


class Change(msgspec.Struct, frozen=True, gc=False):
    """A circuit that is in another state than before."""

    key: Key
    state: State
    seconds: float = 0.0
    """How long it stays open …"""
    caller: str | None = None
    """… and for which caller; None for everybody."""
    is_shared: bool = True
    """Whether it concerns other instances: that of a single conversation does not."""


class Opening(msgspec.Struct, frozen=True, gc=False):
    """What other instances are told of a circuit that opened: seconds left, no clock is shared."""

    key: Key
    seconds: float
    caller: str | None = None
    """None for everybody."""


class Permits(msgspec.Struct, frozen=True, gc=False):
    """Leave to make one attempt, from both of its circuits."""

    provider: str
    credential: str
    provider_breaker: Breaker
    credential_breaker: Breaker
    provider_permit: Permit
    credential_permit: Permit
    source: Source | None = None

    @property
    def is_probe(self) -> bool:
        """Whether the attempt is to find out if a circuit may close."""
        return self.provider_permit.is_probe or self.credential_permit.is_probe

    @property
    def probed(self) -> tuple[Key, ...]:
        """The circuits that the attempt probes."""
        keys = []
        if self.provider_permit.is_probe:
            keys.append(Key(self.provider))
        if self.credential_permit.is_probe:
            keys.append(Key(self.provider, self.credential))
        return tuple(keys)


class Breakers:
    """A breaker for each provider and each credential; those used least lately are forgotten."""

    __slots__ = ("_breakers", "_most", "_open_for", "_threshold")

    def __init__(self, threshold: int = 5, open_for: float = 60.0, most: int = 4096) -> None:
        if most < 2:
            raise ConfigError(f"breakers: most is {most}, must be 2 or more (an attempt needs two)")
        Breaker(threshold, open_for)  # says what is wrong with them now, not at the first call
        self._threshold = threshold
        self._open_for = open_for
        self._most = most
        self._breakers: OrderedDict[Key, Breaker] = OrderedDict()

    def __len__(self) -> int:
        return len(self._breakers)

    def allow(
        self, provider: str, credential: str, now: float, source: Source | None = None
    ) -> Permits | None:
        """Return leave for one attempt when both circuits give it, else None.

        With a `source`, failures of that one alone close the provider's road for no other.
        """
        ours, theirs = self._of(Key(provider)), self._of(Key(provider, credential))
        own = ours.allow(now, source)
        if own is None:
            return None
        other = theirs.allow(now)
        if other is None:
            ours.done(own, None, now)
            return None
        return Permits(provider, credential, ours, theirs, own, other, source)

    def retry_after(
        self, provider: str, credential: str, now: float, source: Source | None = None
    ) -> float:
        """Return the seconds after which an attempt may be allowed; 0 when it is."""
        found = (self._breakers.get(Key(provider)), self._breakers.get(Key(provider, credential)))
        return max(
            (one.retry_after(now) for one in found if one and one.concerns(source)), default=0.0
        )

    def limited_for(
        self, provider: str, credential: str, now: float, source: Source | None = None
    ) -> float:
        """Return the seconds until a limit may be over; 0 unless one is all that refuses."""
        breaker, ours = (
            self._breakers.get(Key(provider, credential)),
            self._breakers.get(Key(provider)),
        )
        if breaker is None or not breaker.is_passing:
            return 0.0
        return 0.0 if ours is not None and ours.concerns(source) else breaker.retry_after(now)

    def state(self, key: Key, now: float) -> State:
        """Return the state of one circuit."""
        breaker = self._breakers.get(key)
        return "closed" if breaker is None else breaker.state(now)

    def left(self, key: Key, now: float) -> float:
        """Return the seconds after which one circuit may let an attempt through."""
        breaker = self._breakers.get(key)
        return 0.0 if breaker is None else breaker.retry_after(now)

    def done(self, permit: Permits, failure: Failure | None, now: float) -> tuple[Change, ...]:
        """Take an attempt's outcome, None for a success; return the circuits that changed.

        A failure counts against one circuit and says nothing about the other.
        """
        if failure is None:
            return self._settle(permit, False, False, now)
        against_provider = True if failure.trips == "provider" else None
        against_credential = True if failure.trips == "credential" else None
        return self._settle(permit, against_provider, against_credential, now, failure)

    def abandon(self, permit: Permits, now: float) -> None:
        """Take back the leave of an attempt that came to nothing, such as a cancelled one."""
        self._settle(permit, None, None, now)

    def deny(self, permit: Permits, now: float) -> None:
        """Give a probe back unused: another instance holds the claim."""
        permit.provider_breaker.deny(permit.provider_permit, now)
        permit.credential_breaker.deny(permit.credential_permit, now)

    def learn(self, opening: Opening, now: float) -> Change | None:
        """Open a circuit as another instance has; return the change, if it is one."""
        breaker = self._of(opening.key)
        state = breaker.learn(opening.seconds, now, opening.caller)
        return None if state is None else _change(opening.key, state, breaker, now)

    def _of(self, key: Key) -> Breaker:
        breaker = self._breakers.get(key)
        if breaker is None:
            # A provider in trouble cannot tell when it is over; who counts a limit can.
            least = None if key.credential is None else min(SHORTEST_OPENING, self._open_for)
            breaker = self._breakers[key] = Breaker(self._threshold, self._open_for, least)
            if len(self._breakers) > self._most:
                self._breakers.popitem(last=False)
        else:
            self._breakers.move_to_end(key)
        return breaker

    def _settle(
        self,
        permit: Permits,
        provider_failed: bool | None,
        credential_failed: bool | None,
        now: float,
        failure: Failure | None = None,
    ) -> tuple[Change, ...]:
        ours, theirs = permit.provider_breaker, permit.credential_breaker
        asked = None if failure is None else failure.retry_after
        is_passing = failure is None or failure.is_retryable
        source = None if failure is not None and failure.reason in UNREACHABLE else permit.source
        opened = ours.done(permit.provider_permit, provider_failed, now, asked, source=source)
        other = theirs.done(
            permit.credential_permit, credential_failed, now, asked, is_passing=is_passing
        )
        if opened is None and other is None:
            return ()
        changes = []
        if opened is not None:
            changes.append(_change(Key(permit.provider), opened, ours, now))
        if other is not None:
            key = Key(permit.provider, permit.credential)
            changes.append(_change(key, other, theirs, now))
        return tuple(changes)


def _change(key: Key, state: State, breaker: Breaker, now: float) -> Change:
    blamed = breaker.blamed if state == "open" else None
    seconds = breaker.retry_after(now)
    if blamed is None:
        return Change(key, state, seconds)
    ((caller, conversation),) = blamed.items()
    return Change(key, state, seconds, caller, conversation is EVERY_CONVERSATION)


def opening_of(change: Change) -> Opening | None:
    """Return what other instances are to be told of a change; None where it is their own affair."""
    if change.state != "open" or not change.is_shared:
        return None
    return Opening(change.key, change.seconds, change.caller)
