"""UsageRecorder: sums up every settled call in batches for the writer's thread. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import cast

from looptrap.dialect.model import MAX_NAME_CHARS, NO_USAGE, Call, Outcome
from looptrap.engine import Ticket
from looptrap.policy.verdict import ALLOWED
from looptrap.usage.breach import Breach
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
"""Distinct keys in one minute: a client may send any model name."""

InputCostEstimator = Callable[[Call], int | None]
"""Returns the cost of a call's input in nano-dollars; None if the price is unknown."""

MAX_TRACKED_SESSIONS = 5_000
"""Distinct sessions in one batch."""


class UsageAccumulator:
    """Sums up calls; it runs for every call, so it does no more than look-ups."""

    def __init__(self) -> None:
        self._minute_start = self._minute_end = 0
        """Of the open minute."""
        # Looked up by a plain tuple, which equals the UsageKey. They are in the batch, too.
        self._open: dict[tuple[str, str, str, str], UsageTotals] = {}
        self._keys: set[tuple[str, str, str, str]] = set()
        """Keys of this minute, also of batches taken already."""
        self._sessions: dict[tuple[str, str, str], SessionUsage] = {}
        self._batch = UsageBatch()

    def __bool__(self) -> bool:
        return bool(self._sessions or self._batch)

    def add(
        self,
        now: float,
        caller: str,
        project: str,
        provider: str,
        model: str,
        outcome: Outcome | None,
        session: str = "",
    ) -> tuple[UsageTotals, SessionUsage | None]:
        """Add a call with its usage and cost; return its row and that of its session."""
        if not self._minute_start <= now < self._minute_end:
            self._start_minute(now)
        model = model[:MAX_NAME_CHARS]
        spent = self._open.get((caller, project, provider, model))
        if spent is None:
            spent = self._add_key((caller, project, provider, model))
        spent.calls += 1
        run = (
            self._run((caller, project, session[:MAX_NAME_CHARS]), now, model) if session else None
        )
        if outcome is not None and (usage := outcome.usage) is not NO_USAGE:
            spent.input_tokens += usage.input_tokens
            spent.output_tokens += usage.output_tokens
            if (cost := outcome.cost) is None:
                spent.unpriced += 1
            else:
                spent.cost += cost
            if usage.is_estimated:
                spent.estimated += 1
            if run is not None:
                tokens = usage.input_tokens + usage.output_tokens
                run.tokens += tokens
                run.used += tokens
                run.unpriced += cost is None
                run.cost += cost or 0
        return spent, run

    def add_breach(self, breach: Breach) -> None:
        """Add a call that an exceeded budget refused."""
        self._batch.add_breach(breach)

    def take(self) -> UsageBatch:
        """Return everything since the last call; not thread-safe with `add`."""
        self._open = {}
        batch, self._batch = self._batch, UsageBatch()
        batch.sessions, self._sessions = cast(dict[SessionKey, SessionUsage], self._sessions), {}
        return batch

    def _add_key(self, key: tuple[str, str, str, str]) -> UsageTotals:
        if key not in self._keys:
            if len(self._keys) >= MAX_KEYS_PER_MINUTE:
                return self._batch.totals_of(self._minute_start, OTHER_USAGE_KEY)
            self._keys.add(key)
        spent = self._open[key] = self._batch.totals_of(self._minute_start, UsageKey(*key))
        return spent

    def _run(self, key: tuple[str, str, str], now: float, model: str) -> SessionUsage:
        """Count a call of a session; return the session's row."""
        run = self._sessions.get(key)
        if run is None:
            key = key if len(self._sessions) < MAX_TRACKED_SESSIONS else OTHER_SESSION_KEY
            run = self._sessions.setdefault(SessionKey(*key), SessionUsage(now, now))
        run.calls += 1
        run.last = now
        run.model = model
        if run.minute != self._minute_start:
            run.minute, run.used = self._minute_start, 0
        return run

    def _start_minute(self, now: float) -> None:
        self._open = {}
        self._keys.clear()
        self._minute_start = int(now) // MINUTE_S * MINUTE_S
        self._minute_end = self._minute_start + MINUTE_S


class UsageRecorder:
    """Counts every call: a sample would not do for costs."""

    def __init__(self) -> None:
        self._spending = UsageAccumulator()
        self._flushed: deque[UsageBatch] = deque()
        self._batch = UsageBatch()
        """The next batch to write: only the writer's thread uses it."""

    # On the event loop

    def record(
        self, ticket: Ticket, outcome: Outcome | None, now: float, provider: str, session: str
    ) -> None:
        """Record a settled call."""
        call = ticket.call
        request = call.request
        spent, run = self._spending.add(
            now, request.caller, request.project, provider, call.model, outcome, session
        )
        if ticket.verdict is not ALLOWED or ticket.heard is not None:
            if outcome is not None or not ticket.verdict.action.refuses:
                spent.warned += 1
            else:
                spent.refused += 1
                if run is not None:
                    run.refused += 1
        if ticket.shadow is not None:
            spent.shadowed += 1

    def record_breaches(
        self, ticket: Ticket, now: float, request_id: bytes, estimate: InputCostEstimator
    ) -> None:
        """Record the budgets that refused a call, or in shadow mode would have."""
        # A call that was refused for a loop, too, was not refused by the budget.
        is_reason = ticket.verdict.reason == "budget_exceeded"
        exceeded = [
            one
            for one in ticket.standings
            if one.action.refuses and (is_reason or one.mode == "shadow")
        ]
        if exceeded:
            project, cost = ticket.call.request.project, estimate(ticket.call)
            for one in exceeded:
                text = request_id.decode("latin-1")[:MAX_NAME_CHARS]
                self._spending.add_breach(Breach.of(one, now, project, text, cost))

    def flush(self) -> None:
        """Queue the counts for the writer's thread: it must not read while calls are added."""
        if self._spending:
            self._flushed.append(self._spending.take())

    # On the writer's thread

    def add_loop(self, time: float, spender: UsageKey, *, saved: int, spent: int) -> None:
        """Add the nano-dollars that a call of a loop at this time saved or cost."""
        totals = self._batch.totals_of(int(time) // MINUTE_S * MINUTE_S, spender)
        totals.saved += saved
        totals.looped += spent

    def take(self) -> UsageBatch:
        """Return the batch to write."""
        for _ in range(len(self._flushed)):
            self._batch.add(self._flushed.popleft())
        batch, self._batch = self._batch, UsageBatch()
        return batch
