"""One call over the legs of its plan, attempt by attempt, as its course says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, inf
from typing import assert_never

from looptrap.dialect.model import Call
from looptrap.gateway.relay import Relay
from looptrap.gateway.upstream.attempt import NO_RETRY_FIELD, UpstreamAttempt
from looptrap.gateway.upstream.failover_plan import Candidate, FailoverPlan
from looptrap.gateway.upstream.outbound_request import OutboundRequest, RequestBuilder
from looptrap.gateway.upstream.upstream_state import UpstreamState
from looptrap.gateway.upstream_error import status_and_code
from looptrap.retry.breaker import CircuitPermits, Source
from looptrap.retry.failure import Failure
from looptrap.retry.policy import Chain
from looptrap.retry.schedule import FinalFailure, RetrySchedule, ScheduleStep, Try, Wait
from looptrap.wire.pool import Pools
from looptrap.wire.upstream_exchange import UpstreamError

SkippedTargets = Sequence[tuple[str, str]]
"""Places that were not tried, with the reason."""


def attempts_field(attempts: int) -> tuple[bytes, bytes]:
    """Return the header that says how many attempts there were."""
    return (b"X-Looptrap-Attempts", b"%d" % attempts)


def answer_breaker_open(relay: Relay, failed: FinalFailure, skipped: SkippedTargets) -> None:
    """Say that nobody was asked, and when to come again: every circuit is open."""
    relay.fail(
        503,
        "breaker_open",
        f"Left alone after failures in a row: {_reasons(failed, skipped)}.",
        headers=[(b"X-Looptrap-Reason", b"breaker_open"), attempts_field(0)],
        retry_after=max(1, ceil(failed.retry_after or 0.0)),
    )


def answer_upstream_failed(
    relay: Relay, failed: FinalFailure, skipped: SkippedTargets, error: UpstreamError | None
) -> None:
    """Say that no provider answered."""
    status, code = (502, "upstream_failed") if error is None else status_and_code(error)
    relay.fail(
        status,
        code,
        f"No provider answered: {_reasons(failed, skipped)}.",
        headers=[relay.provider_field, attempts_field(failed.attempts), NO_RETRY_FIELD],
        retry_after=None if failed.retry_after is None else ceil(failed.retry_after),
    )


def answer_deadline_exceeded(relay: Relay, deadline: float, attempts: int) -> None:
    """Say that the time of the route is over."""
    relay.fail(
        504,
        "deadline_exceeded",
        f"No answer had begun within {deadline:g} s.",
        headers=[relay.provider_field, attempts_field(attempts), NO_RETRY_FIELD],
    )


def _reasons(failed: FinalFailure, skipped: SkippedTargets) -> str:
    reasons = [(name, failure.reason) for name, failure in failed.reasons]
    return "; ".join(f"{name}: {reason}" for name, reason in (*reasons, *skipped))


PEEK_TIMEOUT_S = 1.0
"""Seconds that the opening of a stream is held back for what follows it."""

DEADLINE_FAILURE = Failure("server", "timeout", is_timeout=True, trips="provider")
"""What an attempt that lasts until the deadline is to its circuit."""


class RoutedRequest:
    """Sends, waits and fails over until there is an answer to pass on, or nothing left to try.

    Nothing reaches the client before an answer is known to be good, and nothing is sent again
    after that.
    """

    __slots__ = (
        "_attempt",
        "_course",
        "_deadline",
        "_dispatch",
        "_is_over",
        "_leg",
        "_legs",
        "_packing",
        "_parcel",
        "_permit",
        "_plan",
        "_pools",
        "_relay",
        "_skipped",
        "_timer",
    )

    def __init__(
        self,
        relay: Relay,
        plan: FailoverPlan,
        legs: Sequence[Candidate],
        skipped: SkippedTargets,
        packing: RequestBuilder,
        *,
        dispatch: UpstreamState,
        pools: Pools,
    ) -> None:
        now = dispatch.clock()
        breakers = dispatch.breakers if plan.has_breakers else None
        self._relay = relay
        self._plan = plan
        self._legs = {leg.link: leg for leg in legs}
        self._skipped = skipped
        self._packing = packing
        self._dispatch = dispatch
        self._pools = pools
        source = Source(relay.context.identity.caller, partial(_conversation, relay.call))
        self._course = RetrySchedule(
            Chain(tuple(self._legs)), plan.policy, breakers, now=now, source=source
        )
        self._deadline = inf if plan.policy.deadline is None else now + plan.policy.deadline
        self._leg: Candidate | None = None
        self._parcel: OutboundRequest | None = None
        self._permit: CircuitPermits | None = None
        self._attempt: UpstreamAttempt | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def begin(self) -> None:
        """Make the first attempt."""
        if self._plan.has_breakers and self._dispatch.sharing is not None:
            self._dispatch.sharing.start()
        self._go_on(self._next())

    def wake(self) -> None:
        """End a wait."""
        self._dispatch.waiting.discard(self)
        self._stop_timer()
        self._go_on(self._next())

    def cancel(self) -> None:
        """Drop everything: the answer is complete, or nobody waits for it any more."""
        self._dispatch.waiting.discard(self)
        self._stop_timer()
        self._drop()
        self._attempt = None  # it refers back to this journey
        if not self._is_over:
            self._is_over = True
            self._course.abandoned(self._dispatch.clock())
            self._settle_circuits()

    # How an attempt goes

    def opened(self) -> None:
        """Wait for what follows the opening of a stream, but not for long."""
        self._start_timer(PEEK_TIMEOUT_S, self._lose_patience)

    def succeeded(self) -> None:
        """Pass the answer on."""
        self._course.succeeded(self._dispatch.clock())
        self._settle_circuits()
        self._pass_on()

    def failed(self, failure: Failure) -> None:
        """Note how an attempt failed, and do what the course says."""
        self._note_failure(failure)
        step = self._next()
        if not isinstance(step, FinalFailure):
            self._drop()
        self._relay.exchange.attempt(partial(self._go_on, step))

    def broke_off(self, failure: Failure) -> None:
        """Note that the provider left an answer unfinished: nothing is sent again."""
        self._dispatch.broke_off(self._permit, failure)

    # The course

    def _next(self) -> ScheduleStep:
        step = self._course.next(self._dispatch.clock(), self._dispatch.chance())
        self._dispatch.note(self._course.take_changes())
        return step

    def _go_on(self, step: ScheduleStep) -> None:
        match step:
            case Try():
                if step.permit is not None and step.permit.is_probe:
                    self._dispatch.claim(step.permit, partial(self._claimed, step))
                else:
                    self._send(step)
            case Wait():
                self._dispatch.waiting.add(self)
                seconds = 0.0 if self._dispatch.is_hurried else step.seconds
                self._start_timer(seconds, self.wake)
            case FinalFailure():
                self._give_up(step)
            case _:
                assert_never(step)

    def _claimed(self, step: Try, is_ours: bool) -> None:
        """Make a probe, if it is ours to make; the client may be gone by now."""
        act = self._relay.exchange.attempt
        if self._is_over:
            if is_ours:
                self._dispatch.settled(step.permit, ())
        elif is_ours:
            act(partial(self._send, step))
        else:
            self._course.denied(self._dispatch.clock())
            act(lambda: self._go_on(self._next()))

    def _send(self, step: Try) -> None:
        """Make one attempt."""
        relay, leg = self._relay, self._legs[step.link]
        provider, is_failover = leg.provider, False
        if self._parcel is None or leg is not self._leg:
            is_failover = self._leg is not None or leg.link != next(iter(self._legs))
            self._leg, self._parcel = leg, self._packing.pack(leg)
        self._dispatch.count(provider.name, is_retry=step.attempt > 1, is_failover=is_failover)
        self._permit = step.permit
        relay.start_upstream(provider, leg.link.model)
        parcel, attempt = self._parcel, UpstreamAttempt(relay, self)
        self._attempt = attempt
        attempt.flight = relay.exchange.source = provider.pool(self._pools).send(
            relay.exchange.method, parcel.target, parcel.fields, parcel.body, attempt, step.fresh
        )
        patience = self._plan.attempt_timeout or inf
        left = self._deadline - self._dispatch.clock()
        if patience < left:
            self._start_timer(patience, self._time_out)
        elif left < inf:
            self._start_timer(left, self._run_late)

    def _note_failure(self, failure: Failure) -> None:
        self._stop_timer()
        self._course.failed(failure, self._dispatch.clock())
        self._settle_circuits()
        self._permit = None

    def _settle_circuits(self) -> None:
        self._dispatch.settled(self._permit, self._course.take_changes())

    # Ends

    def _pass_on(self, *more: tuple[bytes, bytes]) -> None:
        """Hand the answer over: from here on it is the relay's."""
        assert self._attempt is not None
        self._stop_timer()
        self._is_over = True
        self._attempt.pass_on(attempts_field(self._course.attempts), *more)

    def _give_up(self, failed: FinalFailure) -> None:
        """Answer with what the last provider said, else in our own words."""
        attempt = self._attempt
        if self._dispatch.clock() >= self._deadline:
            self._end_late()
        elif attempt is not None and attempt.can_pass_on:
            self._pass_on(NO_RETRY_FIELD)
        else:
            self._is_over = True
            if attempt is None:
                answer_breaker_open(self._relay, failed, self._skipped)
            else:
                answer_upstream_failed(self._relay, failed, self._skipped, attempt.error)

    def _end_late(self) -> None:
        self._drop()
        self._is_over = True
        answer_deadline_exceeded(
            self._relay, self._plan.policy.deadline or 0.0, self._course.attempts
        )

    def _drop(self) -> None:
        if self._attempt is not None:
            self._attempt.drop()
            self._relay.exchange.source = None

    # Time

    def _time_out(self) -> None:
        """End an attempt whose answer has not begun in time."""
        attempt = self._attempt
        assert attempt is not None
        attempt.drop()
        what = f"no answer within {self._plan.attempt_timeout:g} s"
        attempt.on_error(UpstreamError("first_byte_timeout", what))

    def _run_late(self) -> None:
        """End it all: the deadline is here, and nothing has been passed on."""
        self._drop()
        self._note_failure(DEADLINE_FAILURE)
        self._end_late()

    def _lose_patience(self) -> None:
        """Pass on an opening that nothing has followed."""
        self.succeeded()
        self._relay.flush()

    def _start_timer(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_timer()
        act = partial(self._relay.exchange.attempt, then)
        self._timer = asyncio.get_running_loop().call_later(seconds, act)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _conversation(call: Call) -> int:
    """Return what tells a conversation apart: the client's session, else how it begins."""
    return hash(call.request.session or b"".join(call.raws[:2]))
