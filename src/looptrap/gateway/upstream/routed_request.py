"""RoutedRequest: one call over the candidates of its plan, attempt by attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, inf
from typing import assert_never

from looptrap.gateway.provider import status_and_code
from looptrap.gateway.relay import Relay
from looptrap.gateway.upstream.attempt import NO_RETRY_FIELD, UpstreamAttempt
from looptrap.gateway.upstream.failover_plan import Candidate, FailoverPlan, SkippedTargets
from looptrap.gateway.upstream.outbound_request import OutboundRequest, RequestBuilder
from looptrap.gateway.upstream.upstream_state import UpstreamState, refused_key, source_of
from looptrap.retry.breaker import CircuitPermits
from looptrap.retry.failure import Failure
from looptrap.retry.policy import Chain
from looptrap.retry.schedule import FinalFailure, RetrySchedule, ScheduleStep, Try, Wait
from looptrap.wire.exchange import UpstreamError
from looptrap.wire.pool import Pools

PEEK_TIMEOUT_S = 1.0
"""Seconds that the opening of a stream is held for what follows it."""

DEADLINE_FAILURE = Failure("server", "timeout", is_timeout=True, trips="provider")
"""How an attempt that lasts until the deadline counts for its circuit."""


class RoutedRequest:
    """Sends, waits and fails over until there is an answer to pass on, or nothing left to try.

    Nothing reaches the client before an answer is known to be good, and nothing is sent again
    after that.
    """

    def __init__(
        self,
        relay: Relay,
        plan: FailoverPlan,
        candidates: Sequence[Candidate],
        skipped: SkippedTargets,
        builder: RequestBuilder,
        *,
        upstreams: UpstreamState,
        pools: Pools,
    ) -> None:
        now = upstreams.clock()
        self._relay = relay
        self._plan = plan
        self._candidates = {candidate.link: candidate for candidate in candidates}
        self._skipped = skipped
        self._builder = builder
        self._upstreams = upstreams
        self._pools = pools
        self._schedule = RetrySchedule(
            Chain(tuple(self._candidates)),
            plan.policy,
            upstreams.breakers,
            now=now,
            source=source_of(relay),
        )
        self._deadline = inf if plan.policy.deadline is None else now + plan.policy.deadline
        self._candidate: Candidate | None = None
        self._outbound: OutboundRequest | None = None
        self._permit: CircuitPermits | None = None
        self._attempt: UpstreamAttempt | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def begin(self) -> None:
        """Make the first attempt."""
        self._do(self._next())

    def wake(self) -> None:
        """End a wait."""
        self._upstreams.waiting.discard(self)
        self._stop_timer()
        self._do(self._next())

    def cancel(self) -> None:
        """Drop everything: the answer is complete, or no longer awaited."""
        self._upstreams.waiting.discard(self)
        self._stop_timer()
        self._drop()
        self._attempt = None  # it refers back to this object
        if not self._is_over:
            self._is_over = True
            self._schedule.abandoned(self._upstreams.clock())
            self._settle_circuits()

    # Reports of an attempt

    def opened(self) -> None:
        """Take that a stream has begun without content: wait for what follows, but not long."""
        self._start_timer(PEEK_TIMEOUT_S, self._pass_opening_on)

    def succeeded(self) -> None:
        """Pass a good answer on."""
        self._schedule.succeeded(self._upstreams.clock())
        self._settle_circuits()
        candidate = self._candidate
        if self._upstreams.watched and candidate is not None:
            self._upstreams.answered(
                candidate.provider, has_operator_key=candidate.has_operator_key
            )
        self._pass_on()

    def failed(self, failure: Failure) -> None:
        """Take a failure before anything was passed on, and do what the schedule says."""
        self._note_failure(failure)
        step = self._next()
        if not isinstance(step, FinalFailure):
            self._drop()
        self._relay.exchange.attempt(partial(self._do, step))

    def broke_off(self, failure: Failure) -> None:
        """Take a failure amid an answer: nothing is sent again."""
        self._report(failure)
        self._upstreams.broke_off(self._permit, failure)

    # The schedule

    def _next(self) -> ScheduleStep:
        step = self._schedule.next(self._upstreams.clock(), self._upstreams.chance())
        self._upstreams.note(self._schedule.take_changes())
        return step

    def _do(self, step: ScheduleStep) -> None:
        match step:
            case Try():
                if step.permit is not None and step.permit.is_probe:
                    self._upstreams.claim(step.permit, partial(self._on_claim, step))
                else:
                    self._send(step)
            case Wait():
                self._upstreams.waiting.add(self)
                seconds = 0.0 if self._upstreams.is_stopping else step.seconds
                self._start_timer(seconds, self.wake)
            case FinalFailure():
                self._give_up(step)
            case _:
                assert_never(step)

    def _on_claim(self, step: Try, is_ours: bool) -> None:
        """Make a probe if this instance may; the client may have disconnected."""
        act = self._relay.exchange.attempt
        if self._is_over:
            if is_ours:
                self._upstreams.settled(step.permit, ())
        elif is_ours:
            act(partial(self._send, step))
        else:
            self._schedule.denied(self._upstreams.clock())
            act(lambda: self._do(self._next()))

    def _send(self, step: Try) -> None:
        relay, candidate = self._relay, self._candidates[step.link]
        provider, is_failover = candidate.provider, False
        if self._outbound is None or candidate is not self._candidate:
            is_failover = self._candidate is not None or step.link != next(iter(self._candidates))
            self._candidate, self._outbound = candidate, self._builder.build(candidate)
        self._upstreams.count(provider.name, is_retry=step.attempt > 1, is_failover=is_failover)
        self._permit = step.permit
        relay.start_upstream(provider, step.link.model)
        outbound = self._outbound
        self._attempt = attempt = UpstreamAttempt(relay, self)
        attempt.upstream = relay.exchange.source = provider.pool(self._pools).send(
            relay.exchange.method,
            outbound.target,
            outbound.fields,
            outbound.body,
            attempt,
            step.fresh,
        )
        timeout = self._plan.attempt_timeout or inf
        left = self._deadline - self._upstreams.clock()
        if timeout < left:
            self._start_timer(timeout, self._time_out)
        elif left < inf:
            self._start_timer(left, self._exceed_deadline)

    def _note_failure(self, failure: Failure) -> None:
        self._stop_timer()
        self._report(failure)
        self._schedule.failed(failure, self._upstreams.clock())
        self._settle_circuits()
        self._permit = None

    def _report(self, failure: Failure) -> None:
        """Report a failure that is the provider's fault, or that of the operator's key there."""
        candidate = self._candidate
        if candidate is None:
            return
        _, mark, digits = failure.reason.partition("http_")
        status = int(digits) if mark else 0
        reason, is_of_key = "", False
        if failure.trips == "provider":
            reason = f"status {status}" if status else failure.message or failure.reason
        elif candidate.has_operator_key:
            reason, is_of_key = refused_key(candidate.provider, status), True
        if reason:
            self._upstreams.failed(candidate.provider, reason, is_of_key=is_of_key)

    def _settle_circuits(self) -> None:
        self._upstreams.settled(self._permit, self._schedule.take_changes())

    # Ends

    def _pass_on(self, *more: tuple[bytes, bytes]) -> None:
        """Give the answer to the relay, which handles it from here on."""
        assert self._attempt is not None
        self._stop_timer()
        self._is_over = True
        self._attempt.pass_on(_attempts_field(self._schedule.attempts), *more)

    def _give_up(self, failed: FinalFailure) -> None:
        """Answer with the last provider's answer, else with a failure of our own."""
        attempt = self._attempt
        if self._upstreams.clock() >= self._deadline:
            self._fail_by_deadline()
        elif attempt is not None and attempt.can_pass_on:
            self._pass_on(NO_RETRY_FIELD)
        else:
            self._is_over = True
            if attempt is None:
                self._answer_breaker_open(failed)
            else:
                self._answer_upstream_failed(failed, attempt.error)

    def _answer_breaker_open(self, failed: FinalFailure) -> None:
        """Answer that every circuit is open, and when to try again."""
        self._relay.fail(
            503,
            "breaker_open",
            f"Left alone after failures in a row: {self._reasons(failed)}.",
            headers=[(b"X-Looptrap-Reason", b"breaker_open"), _attempts_field(0)],
            retry_after=max(1, ceil(failed.retry_after or 0.0)),
        )

    def _answer_upstream_failed(self, failed: FinalFailure, error: UpstreamError | None) -> None:
        status, code = (502, "upstream_failed") if error is None else status_and_code(error)
        self._relay.fail(
            status,
            code,
            f"No provider answered: {self._reasons(failed)}.",
            headers=[self._relay.provider.field, _attempts_field(failed.attempts), NO_RETRY_FIELD],
            retry_after=None if failed.retry_after is None else ceil(failed.retry_after),
        )

    def _reasons(self, failed: FinalFailure) -> str:
        reasons = [(name, failure.reason) for name, failure in failed.reasons]
        return "; ".join(f"{name}: {reason}" for name, reason in (*reasons, *self._skipped))

    def _fail_by_deadline(self) -> None:
        self._drop()
        self._is_over = True
        attempts = _attempts_field(self._schedule.attempts)
        self._relay.fail(
            504,
            "deadline_exceeded",
            f"No answer had begun within {self._plan.policy.deadline or 0.0:g} s.",
            headers=[self._relay.provider.field, attempts, NO_RETRY_FIELD],
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
        message = f"no answer within {self._plan.attempt_timeout:g} s"
        attempt.on_error(UpstreamError("first_byte_timeout", message))

    def _exceed_deadline(self) -> None:
        """End the call: the deadline has passed before an answer was passed on."""
        self._drop()
        self._note_failure(DEADLINE_FAILURE)
        self._fail_by_deadline()

    def _pass_opening_on(self) -> None:
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


def _attempts_field(attempts: int) -> tuple[bytes, bytes]:
    return (b"X-Looptrap-Attempts", b"%d" % attempts)
