"""Sightings and observations: what of a judged call incidents and indicators are made of."""

from __future__ import annotations

from looptrap.admission import Ticket
from looptrap.call.model import LONGEST_NAME, Call, Outcome
from looptrap.detect.opening import derived, opening
from looptrap.detect.trajectory import Trajectory
from looptrap.incident.indicator import Observation
from looptrap.incident.model import Sighting
from looptrap.incident.sighting import Estimate, no_price, sightings
from looptrap.wire.remembered import Remembered

ONCE = 3
"""So many messages make a question; with more, or with answers of tools, it is a conversation."""

SELDOM = 15
"""How far back a turn goes is counted once in so many messages: that costs more than all else."""


class Witness:
    """Says what was seen of a call, in names, counts and digests."""

    def __init__(
        self, secret: bytes, most_tool_calls: int | None, estimate: Estimate = no_price
    ) -> None:
        self._derived = Remembered(lambda begin: derived(begin, secret))
        self._estimate = estimate
        self._rounds = (most_tool_calls or 0) + 1

    def sightings(
        self, ticket: Ticket, outcome: Outcome | None, time: float, request_id: str, provider: str
    ) -> list[Sighting]:
        """Return what rules decided about a call; `outcome` is None where it was not forwarded."""
        return sightings(
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
        goes_on = ticket.trajectory is not None or len(call.raws) > ONCE
        return self.session(call) if goes_on else ""

    def session(self, call: Call) -> str:
        """Return the session that the client named, else one told by how all of it begins."""
        if call.request.session:
            return call.request.session[:LONGEST_NAME]
        begin = opening(call)
        return self._derived[begin] if begin else ""

    def _tools(self, trajectory: Trajectory | None) -> tuple[int, int, int]:
        """Return the latest tool calls, those that failed, and all since a person last spoke."""
        if trajectory is None:
            return 0, 0, 0
        latest = trajectory.latest(1)
        if not latest:
            return 0, 0, 0
        turn_calls = -1
        if trajectory.length & SELDOM < 2:
            turn_calls = sum(one.answered for one in trajectory.latest(self._rounds))
        return len(latest[0].calls), latest[0].failures, turn_calls
