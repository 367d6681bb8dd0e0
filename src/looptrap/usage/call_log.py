"""CallLog: takes settled calls on the event loop, makes rows of them on the writer's thread. Pure.

A row has names, counts and times of a call, and nothing of its text.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, NamedTuple

from looptrap.dialect.model import MAX_NAME_CHARS, NO_USAGE, Outcome
from looptrap.engine import Ticket
from looptrap.policy.verdict import ALLOWED, Verdict
from looptrap.schema import Number, Table, setting, settings

DAY_S = 86_400.0

SAMPLE_INTERVAL = 50
"""Of the calls beyond `per_second`, one in so many is logged."""

ACTED_FACTOR = 10
"""Calls on which a rule acted are logged one by one up to this many times `per_second`."""


@settings
class CallLogSettings:
    """Whether calls are logged, how many, and for how long."""

    enabled: bool = setting(
        "whether the history has a row for each call: who, which model, tokens, cost, latency and"
        " verdict, never its text",
        default=True,
    )
    keep: float = setting(
        "how long logged calls are kept",
        Number(low=60, high=10 * 365 * 86_400, unit="seconds"),
        default=7 * DAY_S,
    )
    max_rows: int = setting(
        "how many rows are kept; beyond it, the oldest are deleted",
        Number(low=1_000, high=100_000_000, whole=True),
        default=500_000,
    )
    per_second: int = setting(
        "how many allowed calls a second each process logs one by one; of more, it logs about one"
        f" in {SAMPLE_INTERVAL}, with the number of calls that the row stands for",
        Number(low=1, high=100_000, whole=True),
        default=100,
    )


CALL_LOG = Table.of(CallLogSettings)


class CallRow(NamedTuple):
    """One logged call; the fields are the columns of the table."""

    time: float
    """When it was over."""
    weight: int
    """How many calls the row stands for."""
    caller: str
    project: str
    session: str
    agent: str
    model: str
    provider: str
    """Empty if the call was not forwarded."""
    dialect: str
    status: int
    """The status that the client got; 0 if this gateway sent no answer."""
    verdict: str
    """The action taken …"""
    shadow: str
    """… and the one that shadow mode prevented, if any."""
    reason: str
    policy: str
    rule: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    is_estimated: bool
    cost: int | None
    """In nano-dollars; None without a known price."""
    latency: float
    """Seconds from its judgement to the end of the answer."""
    first_byte: float | None
    """Seconds from sending it to the provider to the head of the answer."""
    is_stream: bool
    is_cut_off: bool
    request_id: str


class CallSampler:
    """Takes the first calls of each second, and some of the rest, each with a weight.

    The weights of all rows add up to the number of calls, except for those skipped last.
    """

    __slots__ = ("_ends", "_gap", "_left", "_per_second", "_rng", "_skipped", "_starts")

    def __init__(self, per_second: int, rng: Random) -> None:
        self._per_second = per_second
        self._rng = rng
        self._starts = self._ends = 0.0
        self._left = 0
        """Calls of this second that are taken one by one."""
        self._gap = 1
        """Further calls up to the next one that is taken."""
        self._skipped = 0

    def take(self, now: float) -> int:
        """Return how many calls the row of this one stands for; 0 if it gets none."""
        if not self._starts <= now < self._ends:
            self._starts, self._ends, self._left = now, now + 1.0, self._per_second
        if self._left:
            self._left -= 1
        else:
            self._gap -= 1
            if self._gap:
                self._skipped += 1
                return 0
            # Not every 50th: calls that alternate would be seen by halves.
            self._gap = self._rng.randint(1, 2 * SAMPLE_INTERVAL - 1)
        weight, self._skipped = self._skipped + 1, 0
        return weight


class CallLog:
    """Takes settled calls; an allowed one pays for one append."""

    def __init__(self, settings: CallLogSettings, rng: Random) -> None:
        self._allowed = CallSampler(settings.per_second, rng)
        self._acted = CallSampler(settings.per_second * ACTED_FACTOR, rng)
        self._taken: deque[tuple[Any, ...]] = deque()

    # On the event loop

    def add(
        self,
        ticket: Ticket,
        outcome: Outcome | None,
        now: float,
        began: float,
        status: int,
        provider: str,
        first_byte: float | None,
        session: str,
        agent: str,
        request_id: bytes,
    ) -> None:
        """Take a settled call."""
        verdicts = None
        call = ticket.call
        if ticket.verdict is ALLOWED and ticket.heard is None and ticket.shadow is None:
            weight = self._allowed.take(now)
        else:
            weight = self._acted.take(now)
            verdicts = ticket.verdict, ticket.heard, ticket.shadow
        if weight:
            request = call.request
            # Of the call only what the row needs: its body must not outlive it.
            self._taken.append((
                now, weight, request.caller, request.project, session, agent,
                call.model, provider, call.dialect, status, verdicts, outcome, now - began,
                first_byte, call.stream, request_id,
            ))  # fmt: skip

    # On the writer's thread

    def take(self) -> list[CallRow]:
        """Return the rows of everything taken since the last time."""
        return [_row(*self._taken.popleft()) for _ in range(len(self._taken))]


NOT_SENT = Outcome()
"""The outcome of a call that was not forwarded."""

NO_VERDICTS = (ALLOWED, None, None)


def _row(
    now: float,
    weight: int,
    caller: str,
    project: str,
    session: str,
    agent: str,
    model: str,
    provider: str,
    dialect: str,
    status: int,
    verdicts: tuple[Verdict, Verdict | None, Verdict | None] | None,
    outcome: Outcome | None,
    latency: float,
    first_byte: float | None,
    is_stream: bool,
    request_id: bytes,
) -> CallRow:
    verdict, heard, shadow = verdicts or NO_VERDICTS
    acted = verdict if verdict is not ALLOWED or heard is None else heard
    named = acted if acted is not ALLOWED or shadow is None else shadow
    outcome = outcome or NOT_SENT
    usage = outcome.usage
    return CallRow(
        time=now,
        weight=weight,
        caller=caller,
        project=project,
        session=session[:MAX_NAME_CHARS],
        agent=agent,
        model=model[:MAX_NAME_CHARS],
        provider=provider,
        dialect=dialect,
        status=status,
        verdict=acted.action.value,
        shadow=shadow.action.value if shadow is not None else "",
        reason=named.reason,
        policy=named.policy,
        rule=named.rule,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        is_estimated=usage.is_estimated,
        cost=0 if usage is NO_USAGE else outcome.cost,
        latency=max(latency, 0.0),
        first_byte=first_byte,
        is_stream=is_stream,
        is_cut_off=outcome.cut_off,
        request_id=request_id.decode("latin-1")[:MAX_NAME_CHARS],
    )
