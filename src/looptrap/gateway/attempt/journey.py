"""One call over the legs of its plan, attempt by attempt, as its course says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, assert_never

from looptrap.call.model import Call
from looptrap.gateway.attempt.attempt import NO_RETRY, Attempt
from looptrap.gateway.attempt.dispatch import Dispatch
from looptrap.gateway.attempt.giving_up import (
    Skipped,
    attempts_field,
    tell_late,
    tell_open,
    tell_unanswered,
)
from looptrap.gateway.attempt.parcel import Packing, Parcel
from looptrap.gateway.attempt.plan import Leg, Plan
from looptrap.retry.breaker import Source
from looptrap.retry.breakers import Permits
from looptrap.retry.chain import Chain
from looptrap.retry.course import Course, Failed, Step, Try, Wait
from looptrap.retry.failure import Failure
from looptrap.wire.flight import UpstreamError
from looptrap.wire.pools import Pools

if TYPE_CHECKING:
    from looptrap.gateway.relay import Relay

PEEK_PATIENCE = 1.0
"""Seconds that the opening of a stream is held back for what follows it."""

LATE = Failure("server", "timeout", is_timeout=True, trips="provider")
"""What an attempt that lasts until the deadline is to its circuit."""


class Journey:
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
        plan: Plan,
        legs: Sequence[Leg],
        skipped: Skipped,
        packing: Packing,
        *,
        dispatch: Dispatch,
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
        source = Source(relay.envelope.identity.caller, partial(_conversation, relay.call))
        self._course = Course(
            Chain(tuple(self._legs)), plan.policy, breakers, now=now, source=source
        )
        self._deadline = inf if plan.policy.deadline is None else now + plan.policy.deadline
        self._leg: Leg | None = None
        self._parcel: Parcel | None = None
        self._permit: Permits | None = None
        self._attempt: Attempt | None = None
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
        self._start_timer(PEEK_PATIENCE, self._lose_patience)

    def succeeded(self) -> None:
        """Pass the answer on."""
        self._course.succeeded(self._dispatch.clock())
        self._settle_circuits()
        self._pass_on()

    def failed(self, failure: Failure) -> None:
        """Note how an attempt failed, and do what the course says."""
        self._note_failure(failure)
        step = self._next()
        if not isinstance(step, Failed):
            self._drop()
        self._relay.exchange.attempt(partial(self._go_on, step))

    def broke_off(self, failure: Failure) -> None:
        """Note that the provider left an answer unfinished: nothing is sent again."""
        self._dispatch.broke_off(self._permit, failure)

    # The course

    def _next(self) -> Step:
        step = self._course.next(self._dispatch.clock(), self._dispatch.chance())
        self._dispatch.note(self._course.take_changes())
        return step

    def _go_on(self, step: Step) -> None:
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
            case Failed():
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
        relay.leave_for(provider, leg.link.model)
        parcel, attempt = self._parcel, Attempt(relay, self)
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

    def _give_up(self, failed: Failed) -> None:
        """Answer with what the last provider said, else in our own words."""
        attempt = self._attempt
        if self._dispatch.clock() >= self._deadline:
            self._end_late()
        elif attempt is not None and attempt.can_pass_on:
            self._pass_on(NO_RETRY)
        else:
            self._is_over = True
            if attempt is None:
                tell_open(self._relay, failed, self._skipped)
            else:
                tell_unanswered(self._relay, failed, self._skipped, attempt.error)

    def _end_late(self) -> None:
        self._drop()
        self._is_over = True
        tell_late(self._relay, self._plan.policy.deadline or 0.0, self._course.attempts)

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
        self._note_failure(LATE)
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
