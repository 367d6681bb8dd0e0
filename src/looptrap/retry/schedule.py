"""The schedule of one call over a chain: what to do next, given what has happened so far.

Sans I/O: a driver calls `next`, does what it returns, and reports the outcome.

    while True:
        match schedule.next(clock(), chance()):
            case Try(): ... schedule.succeeded(clock()) or schedule.failed(failure, clock())
            case Wait(seconds): sleep(seconds)
            case FinalFailure() as failed: ...
"""

from __future__ import annotations

from math import inf
from typing import TypeAlias

import msgspec

from looptrap.retry.breaker import Breakers, CircuitChange, CircuitPermits, Source
from looptrap.retry.failure import Failure
from looptrap.retry.policy import Chain, Link, RetryPolicy


class Try(msgspec.Struct, frozen=True, gc=False):
    """Make one attempt now."""

    link: Link
    attempt: int
    """The number of the attempt at this link, from 1."""
    permit: CircuitPermits | None = None
    """The permits of both circuits; None without breakers."""
    fresh: bool = False
    """Whether the previous attempt timed out, so that its connection must not be reused."""


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Wait, then call `next` again; an attempt follows."""

    seconds: float
    failure: Failure
    """The reason of the wait."""


class FinalFailure(msgspec.Struct, frozen=True):
    """The end: no attempt is left, or none would help."""

    failure: Failure
    """The decisive failure: the latest, or why no attempt was made."""
    reasons: tuple[tuple[str, Failure], ...]
    """Each link that failed or was skipped, by name, with its latest failure."""
    attempts: int
    """Attempts made, at all links."""
    retry_after: float | None = None
    """The seconds after which another call may succeed, where known."""


ScheduleStep: TypeAlias = Try | Wait | FinalFailure

DEADLINE_FAILURE = Failure("server", "deadline", "the deadline had passed", is_timeout=True)


class RetrySchedule:
    """One call over a chain, under a policy and breakers."""

    def __init__(
        self,
        chain: Chain,
        policy: RetryPolicy,
        breakers: Breakers | None = None,
        *,
        now: float,
        deadline: float | None = None,
        source: Source | None = None,
    ) -> None:
        """Begin at `now`; `deadline` is a moment of the same clock, the policy's own holds too.

        `source` says whose call it is, for the breakers.
        """
        self._source = source
        self._chain = chain
        self._policy = policy
        self._breakers = breakers
        own = inf if policy.deadline is None else now + policy.deadline
        self.deadline = own if deadline is None else min(own, deadline)
        self.attempts = 0
        """Attempts begun, at all links."""
        self._index = self._limit_waits = 0
        self._attempt = self._timeout_failures = self._server_failures = 0  # at this link
        self._failure: Failure | None = None  # the latest at this link
        self._latest: Failure | None = None  # the latest at any
        self._earliest_retry = inf
        self._has_waited = True
        self._permit: CircuitPermits | None = None
        self._reasons: tuple[tuple[str, Failure], ...] = ()
        self._changes: tuple[CircuitChange, ...] = ()
        self._final: FinalFailure | None = None

    def next(self, now: float, chance: float) -> ScheduleStep:
        """Return what to do at `now`; `chance`, from 0 to 1, is the jitter of a wait."""
        while self._final is None:
            if now >= self.deadline:
                return self._fail(
                    self._failure or DEADLINE_FAILURE, self._latest or DEADLINE_FAILURE
                )
            if self._failure is not None and not self._has_waited:
                seconds = self._worth_waiting(self._failure, now, chance)
                if seconds is not None:
                    self._has_waited = True
                    return Wait(seconds, self._failure)
            else:
                attempt = self._try(now)
                if attempt is not None:
                    return attempt
                seconds = self._worth_waiting_for_limit(now, chance)
                if seconds is not None:
                    return Wait(seconds, self._failure or _breaker_open_failure(seconds))
            self._leave_link(now)
        return self._final

    def succeeded(self, now: float) -> None:
        """Record that the attempt succeeded."""
        if permit := self._take_permit():
            self._changes += permit.done(None, now)

    def failed(self, failure: Failure, now: float) -> None:
        """Record how the attempt failed."""
        if permit := self._take_permit():
            self._changes += permit.done(failure, now)
        self._failure = self._latest = failure
        self._has_waited = False
        self._timeout_failures += failure.is_timeout
        self._server_failures += failure.bucket == "server"
        if not failure.is_retryable:
            self._fail(failure, failure)

    def abandoned(self, now: float) -> None:
        """Record that the attempt has no outcome, such as a cancelled one."""
        if permit := self._take_permit():
            permit.abandon(now)

    def denied(self, now: float) -> None:
        """Record that another instance makes the probe: this attempt was not made."""
        if permit := self._take_permit():
            permit.deny(now)
        self._attempt -= 1
        self.attempts -= 1

    def take_changes(self) -> tuple[CircuitChange, ...]:
        """Return the circuits that changed since the last call of this."""
        changes, self._changes = self._changes, ()
        return changes

    def _take_permit(self) -> CircuitPermits | None:
        permit, self._permit = self._permit, None
        return permit

    @property
    def _link_breakers(self) -> Breakers | None:
        """The breakers, where this link has one."""
        return self._breakers if self._chain.links[self._index].has_breaker else None

    def _try(self, now: float) -> Try | None:
        """Begin an attempt at this link; None when its circuits are open."""
        link, breakers = self._chain.links[self._index], self._link_breakers
        if breakers is not None:
            permit = breakers.allow(link.provider, link.credential, now, self._source)
            if permit is None:
                return None
            self._permit = permit
            if permit.is_probe:
                self._changes += tuple(CircuitChange(key, "half_open") for key in permit.probed)
        self._attempt += 1
        self.attempts += 1
        fresh = self._failure is not None and self._failure.is_timeout
        return Try(link, self._attempt, self._permit, fresh)

    def _worth_waiting(self, failure: Failure, now: float, chance: float) -> float | None:
        """Return the wait before another attempt at this link; None when none is left."""
        policy = self._policy
        if (
            self._attempt >= policy.attempts
            or self._server_failures >= policy.server_attempts
            or self._timeout_failures >= policy.timeout_attempts
        ):
            return None
        seconds = policy.backoff.wait(self._attempt, failure, chance)
        if seconds is None or now + seconds >= self.deadline:
            return None
        if self._open_for(now) > seconds:
            return self._worth_waiting_for_limit(now, chance)
        return seconds

    def _worth_waiting_for_limit(self, now: float, chance: float) -> float | None:
        """Return, and count, a wait for a rate limit of this credential; None to move on."""
        backoff, breakers = self._policy.backoff, self._link_breakers
        if breakers is None or self._limit_waits >= self._policy.limit_waits:
            return None
        if self._next_link() is not None:
            return None
        link = self._chain.links[self._index]
        left = breakers.limited_for(link.provider, link.credential, now, self._source)
        if not 0 < left <= backoff.longest_retry_after:
            return None
        # All calls wait for the same moment, when one may pass: jitter that grows spreads the
        # others.
        room = backoff.longest_retry_after - left + backoff.base
        seconds = left + chance * min(backoff.delay(self._limit_waits + 1, 1.0), room)
        if now + seconds >= self.deadline:
            return None
        self._limit_waits += 1
        return seconds

    def _open_for(self, now: float) -> float:
        breakers = self._link_breakers
        if breakers is None:
            return 0.0
        link = self._chain.links[self._index]
        return breakers.retry_after(link.provider, link.credential, now, self._source)

    def _leave_link(self, now: float) -> None:
        """Move on to the next link, or end after the last one."""
        left = self._open_for(now)
        failure = self._failure or _breaker_open_failure(left)
        hint = max(failure.retry_after or 0.0, left)
        if hint > 0:
            self._earliest_retry = min(self._earliest_retry, hint)
        following = self._next_link()
        if following is None:
            self._fail(failure, self._latest or failure)
            return
        self._add_reason(failure)
        self._index = following
        self._attempt = self._timeout_failures = self._server_failures = 0
        self._failure = None
        self._has_waited = True

    def _next_link(self) -> int | None:
        """Return the index of the next link; None after the last.

        When the provider failed, its other credentials are skipped: they would not help.
        """
        links, left = self._chain.links, self._chain.links[self._index]
        is_down = self._failure is not None and self._failure.trips == "provider"
        for index in range(self._index + 1, len(links)):
            link = links[index]
            if not (is_down and link.provider == left.provider and link.model == left.model):
                return index
        return None

    def _fail(self, here: Failure, decisive: Failure) -> FinalFailure:
        """End the call: `here` is the failure of this link, `decisive` that of the call."""
        self._add_reason(here)
        soonest = None if self._earliest_retry == inf else self._earliest_retry
        if decisive.reason == "breaker_open":
            decisive = msgspec.structs.replace(decisive, retry_after=soonest)
        after = soonest if decisive.is_retryable else decisive.retry_after
        self._final = FinalFailure(decisive, self._reasons, self.attempts, after)
        return self._final

    def _add_reason(self, failure: Failure) -> None:
        self._reasons += ((self._chain.links[self._index].name, failure),)


def _breaker_open_failure(seconds: float) -> Failure:
    return Failure("server", "breaker_open", "skipped after consecutive failures", seconds)
