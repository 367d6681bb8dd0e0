"""Sightings and observations, made from judged calls. Pure."""

from __future__ import annotations

from looptrap.bounded import BoundedCache
from looptrap.detect.fingerprint import conversation_opening, derived_session
from looptrap.detect.trajectory import RunTrajectory, Trajectory
from looptrap.dialect.agent import agent_of
from looptrap.dialect.model import MAX_NAME_CHARS, Call, Outcome
from looptrap.engine import Ticket
from looptrap.incident.indicator import Observation
from looptrap.incident.model import Sighting
from looptrap.policy.verdict import Verdict
from looptrap.usage.recorder import InputCostEstimator

NO_OUTCOME = Outcome()
"""The outcome of a call that was not forwarded."""


def no_price(_call: Call) -> int | None:
    """Return None: the estimator without prices."""
    return None


def make_sightings(
    ticket: Ticket,
    outcome: Outcome | None,
    time: float,
    session: str,
    request_id: str,
    provider: str,
    estimate: InputCostEstimator = no_price,
) -> list[Sighting]:
    """Return one sighting for each decision; `outcome` is None if it was not forwarded."""
    call = ticket.call
    request, agent = call.request, agent_of(call).name
    spent = outcome or NO_OUTCOME
    is_refused = outcome is None and ticket.verdict.action.refuses
    verdicts = list(ticket.verdicts())
    modes = [mode for mode, _ in verdicts]
    return [
        Sighting(
            time=time,
            request_id=request_id[:MAX_NAME_CHARS],
            caller=request.caller,
            project=request.project,
            session=session[:MAX_NAME_CHARS],
            agent=agent,
            model=call.model[:MAX_NAME_CHARS],
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
            # Without the verdict's own fingerprint, which is added last: it is refused now.
            refusing=tuple(one for one in ticket.refusing if one != verdict.fingerprint),
            is_alarming=not verdict.is_early,
            count=verdict.count,
            threshold=verdict.threshold,
            fingerprint=verdict.fingerprint,
            cooldown=verdict.cooldown_left,
            message=verdict.message,
            evidence=verdict.evidence,
            # An incident has the usage of a call once, however many rules acted.
            input_tokens=spent.usage.input_tokens if mode not in modes[:number] else 0,
            output_tokens=spent.usage.output_tokens if mode not in modes[:number] else 0,
            cost=spent.cost if mode not in modes[:number] else None,
            is_counted=not number,
            estimate=estimate(call) if is_refused and not number else None,
            size=len(request.body),
        )
        for number, (mode, verdict) in enumerate(verdicts)
    ]


def _signal(verdict: Verdict) -> str:
    return verdict.evidence[0].signal if verdict.evidence else ""


def _tool(call: Call) -> str:
    """Return the tool of the latest message if it calls only one, else nothing."""
    names = {one.name for message in call.tail(1) for one in message.calls}
    return names.pop()[:MAX_NAME_CHARS] if len(names) == 1 else ""


MAX_QUESTION_MESSAGES = 3
"""Up to this many messages a request is a single question, unless it has tool results."""

TURN_COUNT_MASK = 15
"""Bit mask of the history length: turns are measured about once in 16 messages, as it is costly."""


class SightingFactory:
    """Makes sightings and observations of names, counts and digests; they hold no prompt text."""

    def __init__(
        self, secret: bytes, max_tool_calls: int | None, estimate: InputCostEstimator = no_price
    ) -> None:
        self.rekey(secret)
        self._estimate = estimate
        self._rounds = (max_tool_calls or 0) + 1

    def rekey(self, secret: bytes) -> None:
        """Derive sessions with another secret from now on."""
        self._derived = BoundedCache(lambda opening: derived_session(opening, secret))

    def sightings(
        self, ticket: Ticket, outcome: Outcome | None, time: float, request_id: str, provider: str
    ) -> list[Sighting]:
        """Return one sighting for each decision; `outcome` is None if it was not forwarded."""
        session = self.session(ticket.call)
        return make_sightings(ticket, outcome, time, session, request_id, provider, self._estimate)

    def observation(
        self,
        ticket: Ticket,
        outcome: Outcome,
        time: float,
        provider: str,
        first_byte: float | None,
        session: str,
    ) -> Observation:
        """Return what indicators observe of a call."""
        call, usage = ticket.call, outcome.usage
        return Observation(
            time, call.request.caller, call.request.project, session, call.model[:MAX_NAME_CHARS],
            provider, outcome.status, first_byte, usage.input_tokens, usage.output_tokens,
            *self._tools(ticket.trajectory),
        )  # fmt: skip

    def running_session(self, ticket: Ticket) -> str:
        """Return the session, empty for a single question: deriving one is not cheap."""
        call = ticket.call
        if call.request.session:
            return call.request.session[:MAX_NAME_CHARS]
        is_conversation = ticket.trajectory is not None or len(call.raws) > MAX_QUESTION_MESSAGES
        return self.session(call) if is_conversation else ""

    def session(self, call: Call) -> str:
        """Return the session that the client named, else one derived from the opening."""
        if call.request.session:
            return call.request.session[:MAX_NAME_CHARS]
        opening = conversation_opening(call)
        return self._derived[opening] if opening else ""

    def _tools(self, trajectory: Trajectory | None) -> tuple[int, int, int]:
        """Return the latest tool calls, their failures, and all calls since a person last spoke."""
        if trajectory is None or not (latest := trajectory.latest(1)):
            return 0, 0, 0
        turn_calls = -1
        if trajectory.length & TURN_COUNT_MASK < 2:
            if isinstance(trajectory, RunTrajectory):
                turn_calls, _ = trajectory.count_calls(self._rounds)  # of forgotten rounds too
            else:
                turn_calls = sum(one.result_count for one in trajectory.latest(self._rounds))
        return len(latest[0].calls), latest[0].failures, turn_calls
