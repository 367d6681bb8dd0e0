"""Spending: calls are added up as they are settled, until somebody takes the sums. Pure."""

from __future__ import annotations

from typing import cast

from looptrap.call.model import LONGEST_NAME, Outcome
from looptrap.call.usage import NO_USAGE
from looptrap.incident.spent import (
    MINUTE,
    OTHER_SESSIONS,
    OTHERS,
    Batch,
    Run,
    Session,
    Spender,
    Spent,
)

MOST_A_MINUTE = 1_000
"""Spenders that are told apart in one minute: a client may send any model."""

MOST_SESSIONS = 5_000
"""Sessions that are told apart until they are taken."""


class Spending:
    """Adds up calls as they are settled: what every call pays for, so no more than look-ups."""

    def __init__(self) -> None:
        self._begin = self._end = 0
        """Of the minute that is open."""
        # What they are looked up by is a plain tuple, which equals the name.
        self._open: dict[tuple[str, str, str, str], Spent] = {}
        self._named: set[tuple[str, str, str, str]] = set()
        """Spenders of this minute, also those taken already."""
        self._runs: dict[tuple[str, str, str], Run] = {}
        self._batch = Batch()

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
    ) -> Spent:
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
    ) -> Run:
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

    def take(self) -> Batch:
        """Return all that was counted since this was last asked; not while `add` runs elsewhere."""
        self._close()
        batch, self._batch = self._batch, Batch()
        batch.sessions, self._runs = cast(dict[Session, Run], self._runs), {}
        return batch

    def _name(self, key: tuple[str, str, str, str]) -> Spent:
        if key not in self._named:
            if len(self._named) >= MOST_A_MINUTE:
                return self._open.setdefault(OTHERS, Spent())
            self._named.add(key)
        spent = self._open[Spender(*key)] = Spent()
        return spent

    def _follow(self, key: tuple[str, str, str], now: float) -> Run:
        if len(self._runs) >= MOST_SESSIONS:
            key = OTHER_SESSIONS
        return self._runs.setdefault(Session(*key), Run(now, now))

    def _turn(self, now: float) -> None:
        self._close()
        self._named.clear()
        self._begin = int(now) // MINUTE * MINUTE
        self._end = self._begin + MINUTE

    def _close(self) -> None:
        """Put what is open where it waits to be taken."""
        for spender, spent in cast(dict[Spender, Spent], self._open).items():
            self._batch.put(self._begin, spender, spent)
        self._open = {}
