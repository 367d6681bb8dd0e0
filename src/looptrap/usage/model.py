"""What calls came to: by the minute and who made them, and by session. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from looptrap.usage.savings import usd

MINUTE_S = 60

MAX_PENDING_ROWS = 50_000
"""Rows that are told apart while nothing can be written."""

OTHER_NAME = "other"
"""What names the rest, where more would have to be told apart than that."""


class UsageKey(NamedTuple):
    """Who spends, and on what."""

    caller: str
    project: str
    provider: str
    """Empty where the call never went to one."""
    model: str


class SessionKey(NamedTuple):
    """One run of a caller's agent."""

    caller: str
    project: str
    session: str


OTHER_USAGE_KEY = UsageKey(OTHER_NAME, OTHER_NAME, OTHER_NAME, OTHER_NAME)
OTHER_SESSION_KEY = SessionKey(OTHER_NAME, OTHER_NAME, OTHER_NAME)


class UsageTotals(msgspec.Struct):
    """What calls came to; amounts are nano-dollars."""

    calls: int = 0
    refused: int = 0
    """Answered here: for a loop, a budget, a rate or a kill switch."""
    warned: int = 0
    """Acted on in a milder way."""
    shadowed: int = 0
    """Something would have been done to them but for shadow mode."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    unpriced: int = 0
    """Used something that has no price."""
    estimated: int = 0
    """Told by their size what they used, the provider having said nothing."""
    saved: int = 0
    """What those refused for a loop would have cost."""

    @property
    def tokens(self) -> int:
        """All tokens together."""
        return self.input_tokens + self.output_tokens

    @property
    def cost_usd(self) -> float | None:
        """The cost in dollars; None where all that was used has no price."""
        return None if self.unpriced and not self.cost else usd(self.cost)

    @property
    def saved_usd(self) -> float:
        """What was saved, in dollars, as far as that has a price."""
        return usd(self.saved)

    def add(self, other: UsageTotals) -> None:
        """Add what others came to."""
        for name in UsageTotals.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class SessionUsage(msgspec.Struct):
    """What the calls of one session came to, and the tokens of its latest minute."""

    first: float
    last: float
    calls: int = 0
    refused: int = 0
    tokens: int = 0
    cost: int = 0
    unpriced: int = 0
    minute: int = 0
    """When its latest minute began …"""
    used: int = 0
    """… and the tokens of that."""
    model: str = ""
    """The latest."""

    @property
    def cost_usd(self) -> float | None:
        """The cost in dollars; None where all that was used has no price."""
        return None if self.unpriced and not self.cost else usd(self.cost)

    def tokens_a_minute(self, now: float) -> int:
        """Return its present burn rate: the tokens of the latest minute; 0 of one that is quiet."""
        return self.used if now < self.minute + 2 * MINUTE_S else 0

    def add(self, later: SessionUsage) -> None:
        """Add what came of it later, or elsewhere."""
        self.first = min(self.first, later.first)
        if later.last >= self.last:
            self.last, self.model = later.last, later.model
        self.calls += later.calls
        self.refused += later.refused
        self.tokens += later.tokens
        self.cost += later.cost
        self.unpriced += later.unpriced
        if later.minute == self.minute:
            self.used += later.used
        elif later.minute > self.minute:
            self.minute, self.used = later.minute, later.used


class UsageBatch:
    """What is to be kept: spending by minute and spender, and sessions."""

    def __init__(self) -> None:
        self.spending: dict[tuple[int, UsageKey], UsageTotals] = {}
        self.sessions: dict[SessionKey, SessionUsage] = {}

    def __len__(self) -> int:
        return len(self.spending) + len(self.sessions)

    def spent(self, minute: int, spender: UsageKey) -> UsageTotals:
        """Return what is known of a spender in a minute, to be added to."""
        key = minute, spender
        if key not in self.spending and len(self.spending) >= MAX_PENDING_ROWS:
            key = minute, OTHER_USAGE_KEY
        return self.spending.setdefault(key, UsageTotals())

    def put(self, minute: int, spender: UsageKey, spent: UsageTotals) -> None:
        """Take a row as it is, unless there is one already, or no room."""
        has_room = len(self.spending) < MAX_PENDING_ROWS
        if not has_room or self.spending.setdefault((minute, spender), spent) is not spent:
            self.spent(minute, spender).add(spent)

    def add(self, later: UsageBatch) -> None:
        """Add what came later; of very much, the rest is not told apart."""
        for (minute, spender), spent in later.spending.items():
            self.spent(minute, spender).add(spent)
        for session, run in later.sessions.items():
            self._run(session, run.first).add(run)

    def _run(self, session: SessionKey, now: float) -> SessionUsage:
        if session not in self.sessions and len(self.sessions) >= MAX_PENDING_ROWS:
            session = OTHER_SESSION_KEY
        return self.sessions.setdefault(session, SessionUsage(now, now))
