"""Sightings and observations: what of a judged call incidents and indicators are made of. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from looptrap.detect.fingerprint import conversation_opening, derived_session
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.model import LONGEST_NAME, Call, Outcome
from looptrap.engine import Ticket
from looptrap.incident.indicator import Observation
from looptrap.incident.model import Mode, Sighting
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.wire.bounded_cache import BoundedCache

NO_OUTCOME = Outcome()
"""What a call used that never went upstream."""

InputCostEstimator = Callable[[Call], int | None]
"""What the input alone of a call costs, in nano-dollars; None where no price is known."""


class JudgedTicket(Protocol):
    """A call with all that was decided about it: a ticket."""

    call: Call
    verdict: Verdict
    heard: Verdict | None
    shadow: Verdict | None
    refusing: Sequence[str]


def no_price(_call: Call) -> int | None:
    """Say that nothing has a price."""
    return None


def make_sightings(
    judged: JudgedTicket,
    outcome: Outcome | None,
    time: float,
    *,
    session: str,
    request_id: str,
    provider: str,
    estimate: InputCostEstimator = no_price,
) -> list[Sighting]:
    """Return what rules decided about a call; `outcome` is None where it was not forwarded."""
    call = judged.call
    request = call.request
    used = outcome or NO_OUTCOME
    is_refused = outcome is None and judged.verdict.action.refuses
    return [
        Sighting(
            time=time,
            request_id=request_id[:LONGEST_NAME],
            caller=request.caller,
            project=request.project,
            session=session[:LONGEST_NAME],
            model=call.model[:LONGEST_NAME],
            dialect=call.dialect,
            provider=provider,
            mode=mode,
            reason=verdict.reason,
            policy=verdict.policy,
            rule=verdict.rule,
            signal=_signal(verdict),
            tool=_tool(call) if _signal(verdict) == "tool" else "",
            action=verdict.action.value,
            is_refused=is_refused and not number,
            # What was told comes last: that is what is refused now.
            refusing=tuple(one for one in judged.refusing if one != verdict.fingerprint),
            is_alarming=not verdict.is_early,
            count=verdict.count,
            threshold=verdict.threshold,
            fingerprint=verdict.fingerprint,
            cooldown=verdict.cooldown_left,
            message=verdict.message,
            evidence=verdict.evidence,
            # What one call used is counted once, however many rules spoke.
            input_tokens=used.usage.input_tokens if not number else 0,
            output_tokens=used.usage.output_tokens if not number else 0,
            cost=used.cost if not number else None,
            estimate=estimate(call) if is_refused and not number else None,
            size=len(request.body),
        )
        for number, (mode, verdict) in enumerate(_decisions(judged))
    ]


def _decisions(judged: JudgedTicket) -> list[tuple[Mode, Verdict]]:
    decided: list[tuple[Mode, Verdict]] = []
    if judged.verdict is not ALLOWED:
        decided.append(("enforce", judged.verdict))
    if judged.heard is not None:
        decided.append(("enforce", judged.heard))
    if judged.shadow is not None:
        decided.append(("shadow", judged.shadow))
    return decided


def _signal(verdict: Verdict) -> str:
    return verdict.evidence[0].signal if verdict.evidence else ""


def _tool(call: Call) -> str:
    """Return the only tool that a request is about."""
    names = {one.name for message in call.tail(1) for one in message.calls}
    return names.pop()[:LONGEST_NAME] if len(names) == 1 else ""


MAX_QUESTION_MESSAGES = 3
"""So many messages make a question; with more, or with answers of tools, it is a conversation."""

TURN_COUNT_MASK = 15
"""How far back a turn goes is counted once in so many messages: that costs more than all else."""


class SightingFactory:
    """Says what was seen of a call, in names, counts and digests."""

    def __init__(
        self, secret: bytes, most_tool_calls: int | None, estimate: InputCostEstimator = no_price
    ) -> None:
        self._derived = BoundedCache(lambda begin: derived_session(begin, secret))
        self._estimate = estimate
        self._rounds = (most_tool_calls or 0) + 1

    def sightings(
        self, ticket: Ticket, outcome: Outcome | None, time: float, request_id: str, provider: str
    ) -> list[Sighting]:
        """Return what rules decided about a call; `outcome` is None where it was not forwarded."""
        return make_sightings(
            ticket,
            outcome,
            time,
            session=self.session(ticket.call),
            request_id=request_id,
            provider=provider,
            estimate=self._estimate,
        )

    def observation(
        self,
        ticket: Ticket,
        outcome: Outcome,
        time: float,
        provider: str,
        first_byte: float | None,
        session: str,
    ) -> Observation:
        """Return what indicators are made of."""
        call = ticket.call
        request = call.request
        tools, failed, turn_calls = self._tools(ticket.trajectory)
        return Observation(
            time,
            request.caller,
            request.project,
            session,
            call.model[:LONGEST_NAME],
            provider,
            outcome.status,
            first_byte,
            outcome.usage.input_tokens,
            outcome.usage.output_tokens,
            tools,
            failed,
            turn_calls,
        )

    def running_session(self, ticket: Ticket) -> str:
        """Return the session of a call that is more than a question; to derive it is not cheap."""
        call = ticket.call
        if call.request.session:
            return call.request.session[:LONGEST_NAME]
        goes_on = ticket.trajectory is not None or len(call.raws) > MAX_QUESTION_MESSAGES
        return self.session(call) if goes_on else ""

    def session(self, call: Call) -> str:
        """Return the session that the client named, else one told by how all of it begins."""
        if call.request.session:
            return call.request.session[:LONGEST_NAME]
        begin = conversation_opening(call)
        return self._derived[begin] if begin else ""

    def _tools(self, trajectory: Trajectory | None) -> tuple[int, int, int]:
        """Return the latest tool calls, those that failed, and all since a person last spoke."""
        if trajectory is None:
            return 0, 0, 0
        latest = trajectory.latest(1)
        if not latest:
            return 0, 0, 0
        turn_calls = -1
        if trajectory.length & TURN_COUNT_MASK < 2:
            turn_calls = sum(one.result_count for one in trajectory.latest(self._rounds))
        return len(latest[0].calls), latest[0].failures, turn_calls
