"""From settled calls to batches for the writer: every call is counted, no sample will do. Pure."""

from __future__ import annotations

from collections import deque
from typing import Protocol, cast

from looptrap.dialect.model import LONGEST_NAME, NO_USAGE, Outcome
from looptrap.engine import Ticket
from looptrap.policy.verdict import ALLOWED
from looptrap.usage.model import (
    MINUTE_S,
    OTHER_SESSION_KEY,
    OTHER_USAGE_KEY,
    SessionKey,
    SessionUsage,
    UsageBatch,
    UsageKey,
    UsageTotals,
)

MAX_KEYS_PER_MINUTE = 1_000
"""Spenders that are told apart in one minute: a client may send any model."""

MAX_TRACKED_SESSIONS = 5_000
"""Sessions that are told apart until they are taken."""


class UsageAccumulator:
    """Adds up calls as they are settled: what every call pays for, so no more than look-ups."""

    def __init__(self) -> None:
        self._begin = self._end = 0
        """Of the minute that is open."""
        # What they are looked up by is a plain tuple, which equals the name.
        self._open: dict[tuple[str, str, str, str], UsageTotals] = {}
        self._named: set[tuple[str, str, str, str]] = set()
        """Spenders of this minute, also those taken already."""
        self._runs: dict[tuple[str, str, str], SessionUsage] = {}
        self._batch = UsageBatch()

    def __bool__(self) -> bool:
        return bool(self._open or self._runs or self._batch)

    def add(
        self,
        now: float,
        caller: str,
        project: str,
        provider: str,
        model: str,
        outcome: Outcome | None,
    ) -> UsageTotals:
        """Count a call, and what it used and cost; return its row, for what else there is to it."""
        if not self._begin <= now < self._end:
            self._turn(now)
        spent = self._open.get((caller, project, provider, model[:LONGEST_NAME]))
        if spent is None:
            spent = self._name((caller, project, provider, model[:LONGEST_NAME]))
        spent.calls += 1
        if outcome is not None and (usage := outcome.usage) is not NO_USAGE:
            spent.input_tokens += usage.input_tokens
            spent.output_tokens += usage.output_tokens
            if outcome.cost is None:
                spent.unpriced += 1
            else:
                spent.cost += outcome.cost
            if usage.is_estimated:
                spent.estimated += 1
        return spent

    def add_to_session(
        self,
        now: float,
        caller: str,
        project: str,
        session: str,
        model: str,
        outcome: Outcome | None,
    ) -> SessionUsage:
        """Count a call of a session; to be asked after `add`. Return what it has come to."""
        run = self._runs.get((caller, project, session[:LONGEST_NAME]))
        if run is None:
            run = self._follow((caller, project, session[:LONGEST_NAME]), now)
        run.calls += 1
        run.last = now
        run.model = model[:LONGEST_NAME]
        if run.minute != self._begin:
            run.minute, run.used = self._begin, 0
        if outcome is not None and (usage := outcome.usage) is not NO_USAGE:
            tokens = usage.input_tokens + usage.output_tokens
            run.tokens += tokens
            run.used += tokens
            if outcome.cost is None:
                run.unpriced += 1
            else:
                run.cost += outcome.cost
        return run

    def take(self) -> UsageBatch:
        """Return all that was counted since this was last asked; not while `add` runs elsewhere."""
        self._close()
        batch, self._batch = self._batch, UsageBatch()
        batch.sessions, self._runs = cast(dict[SessionKey, SessionUsage], self._runs), {}
        return batch

    def _name(self, key: tuple[str, str, str, str]) -> UsageTotals:
        if key not in self._named:
            if len(self._named) >= MAX_KEYS_PER_MINUTE:
                return self._open.setdefault(OTHER_USAGE_KEY, UsageTotals())
            self._named.add(key)
        spent = self._open[UsageKey(*key)] = UsageTotals()
        return spent

    def _follow(self, key: tuple[str, str, str], now: float) -> SessionUsage:
        if len(self._runs) >= MAX_TRACKED_SESSIONS:
            key = OTHER_SESSION_KEY
        return self._runs.setdefault(SessionKey(*key), SessionUsage(now, now))

    def _turn(self, now: float) -> None:
        self._close()
        self._named.clear()
        self._begin = int(now) // MINUTE_S * MINUTE_S
        self._end = self._begin + MINUTE_S

    def _close(self) -> None:
        """Put what is open where it waits to be taken."""
        for spender, spent in cast(dict[UsageKey, UsageTotals], self._open).items():
            self._batch.put(self._begin, spender, spent)
        self._open = {}


class RefusedCall(Protocol):
    """What is to be known of a refused call: a sighting."""

    time: float
    caller: str
    project: str
    provider: str
    model: str


class UsageRecorder:
    """Counts every call: no sample would do for what is paid."""

    def __init__(self) -> None:
        self._spending = UsageAccumulator()
        self._handed: deque[UsageBatch] = deque()
        self._batch = UsageBatch()
        """What is to be written next: only the writer's thread knows it."""

    # On the loop

    def settled(
        self, ticket: Ticket, outcome: Outcome | None, now: float, provider: str, session: str
    ) -> None:
        """Count a call."""
        call, spending = ticket.call, self._spending
        request = call.request
        caller, project = request.caller, request.project
        spent = spending.add(now, caller, project, provider, call.model, outcome)
        run = None
        if session:
            run = spending.add_to_session(now, caller, project, session, call.model, outcome)
        if ticket.verdict is not ALLOWED or ticket.heard is not None:
            if outcome is not None or not ticket.verdict.action.refuses:
                spent.warned += 1
            else:
                spent.refused += 1
                if run is not None:
                    run.refused += 1
        if ticket.shadow is not None:
            spent.shadowed += 1

    def hand_over(self) -> None:
        """Let the writer have what was counted; it cannot take it while calls are added."""
        if self._spending:
            self._handed.append(self._spending.take())

    # On the writer's thread

    def save(self, seen: RefusedCall, nano: int) -> None:
        """Add what a refused call would have cost."""
        spender = UsageKey(seen.caller, seen.project, seen.provider, seen.model[:LONGEST_NAME])
        self._batch.spent(int(seen.time) // MINUTE_S * MINUTE_S, spender).saved += nano

    def take(self) -> UsageBatch:
        """Return what there is to be written."""
        for _ in range(len(self._handed)):
            self._batch.add(self._handed.popleft())
        batch, self._batch = self._batch, UsageBatch()
        return batch
