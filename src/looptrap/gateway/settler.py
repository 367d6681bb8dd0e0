"""Settler: records what became of calls, in the store, the metrics, the logs and the history."""

from __future__ import annotations

from collections.abc import Callable

from looptrap.bounded import LruMap
from looptrap.dialect.agent import agent_of
from looptrap.dialect.model import Call, Outcome
from looptrap.engine import Ticket, Transaction
from looptrap.gateway.capture import Capture
from looptrap.gateway.judge import Judge
from looptrap.gateway.request_context import RequestContext
from looptrap.gateway.trace import Tracer, TraceSpan
from looptrap.incident.recorder import IncidentRecorder
from looptrap.policy.verdict import ALLOWED
from looptrap.wire.server_connection import ServerConnection

OnSettled = Callable[[Transaction, Outcome], None]


MAX_CLIENTS = 20_000
"""Clients whose agents are remembered: a library and a caller on a connection each."""


class AgentNames:
    """The names of the agents that send calls, for the metrics and the log of calls; bounded.

    Agents are recognised by their headers, which are read once for equal heads, or by their
    prompts. To search the prompts of every call would cost a tenth of what it costs to pass it on,
    so the first prompt of a client on a connection decides: all of its calls there are from one
    program.
    """

    def __init__(self) -> None:
        self._names: LruMap[tuple[int, bytes, str], str] = LruMap(MAX_CLIENTS)

    def of(self, call: Call, context: RequestContext, connection: ServerConnection) -> str:
        """Return the name of the agent that sent a call; "" where it is not recognised."""
        if context.agent:
            return context.agent
        client = (connection.number, context.user_agent, context.identity.caller)
        name = self._names.get(client)
        if name is None:
            if not call.generates:
                return ""  # it has no prompt: the next call decides
            name = self._names[client] = agent_of(call).name
        return name


class Settler:
    """Settles transactions of this gateway, each once."""

    def __init__(
        self,
        judge: Judge,
        clock: Callable[[], float],
        *,
        on_settled: OnSettled | None = None,
        recorder: IncidentRecorder | None = None,
        tracer: Tracer | None = None,
        capture: Capture | None = None,
    ) -> None:
        self._judge = judge
        self._agents = AgentNames()
        self._capture = capture
        self._on_settled = on_settled
        self._recorder = recorder
        self._tracer = tracer
        self.clock = clock

    def note_answer(self, ticket: Ticket, then: Callable[[], object]) -> None:
        """Tell the store that a repeated call is answered, and call `then` once it knows."""
        streaks, ticket.streaks = ticket.streaks, ()
        self._judge.answer(streaks, self.clock(), then)

    def settle(
        self,
        transaction: Transaction,
        context: RequestContext,
        connection: ServerConnection,
        outcome: Outcome | None = None,
        first_byte: float | None = None,
        span: TraceSpan | None = None,
        *,
        now: float | None = None,
        is_logged: bool = True,
    ) -> None:
        """Record the outcome of a call; None when it was not sent to a provider.

        The access log has no line for a call that another proxy sends.
        """
        call, ticket, provider = transaction.call, transaction.ticket, transaction.provider
        agent = self._agents.of(call, context, connection)
        if now is None:
            now = self.clock()
        if ticket.streaks:
            self._judge.answer(ticket.streaks, now)
        if ticket.holds:
            self._judge.settle(ticket.settlements(outcome), now)
        turn = transaction.answered() if outcome is not None else None
        if turn is not None:
            is_local = not self._judge.is_shared
            notes = transaction.engine.remember_answer(ticket, turn, now, is_local=is_local)
            if notes:
                self._judge.remember(notes, now)
        if self._capture is not None and ticket.capture_id:
            self._capture.add_answer(ticket.capture_id, turn, now)
        transaction.engine.note_answer(ticket, now)
        transaction.engine.settle(ticket, outcome, provider, first_byte)
        if ticket.verdict is not ALLOWED:
            agent = agent_of(call).name or agent  # as the verdict is counted
        transaction.engine.tally.agent_requests[agent] += 1
        if is_logged and self._on_settled is not None:
            self._on_settled(transaction, outcome or Outcome(transaction.status))
        if self._tracer is not None and span is not None:
            settled = outcome or Outcome(transaction.status)
            self._tracer.settled(span, transaction, settled, now)
        if self._recorder is not None:
            if ticket.verdict is not ALLOWED:
                transaction.make_request_id()
            request_id = transaction.request_id
            self._recorder.record_call(
                ticket,
                outcome,
                request_id,
                provider,
                first_byte,
                now,
                transaction.status,
                transaction.began,
                agent,
            )
