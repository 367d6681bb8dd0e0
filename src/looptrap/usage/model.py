"""Usage totals by minute and by session. Pure."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from looptrap.money.price import usd
from looptrap.usage.breach import Breach

MINUTE_S = 60

MAX_PENDING_ROWS = 50_000
"""Distinct rows queued while nothing can be written."""

MAX_PENDING_BREACHES = 5_000
"""Exceeded accounts queued."""

OTHER_NAME = "other"
"""The name under which all further keys are summed."""


class UsageKey(NamedTuple):
    """Who made calls, and to which model."""

    caller: str
    project: str
    provider: str
    """Empty if the call was not forwarded."""
    model: str


class SessionKey(NamedTuple):
    """One session of a caller's agent."""

    caller: str
    project: str
    session: str


OTHER_USAGE_KEY = UsageKey(OTHER_NAME, OTHER_NAME, OTHER_NAME, OTHER_NAME)
OTHER_SESSION_KEY = SessionKey(OTHER_NAME, OTHER_NAME, OTHER_NAME)


class UsageTotals(msgspec.Struct):
    """Summed usage of calls; amounts are nano-dollars."""

    calls: int = 0
    refused: int = 0
    """Refused for a loop, a budget, a rate limit or a kill switch."""
    warned: int = 0
    """Acted on without a refusal."""
    shadowed: int = 0
    """Would have been acted on but for shadow mode."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    unpriced: int = 0
    """Calls whose usage has no price."""
    estimated: int = 0
    """Calls whose usage was estimated from their size."""
    saved: int = 0
    """What the calls refused for a loop would have cost."""
    looped: int = 0
    """What calls of loops cost: a part of `cost`."""

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def cost_usd(self) -> float | None:
        """The cost in dollars; None if nothing that was used has a price."""
        return None if self.unpriced and not self.cost else usd(self.cost)

    @property
    def saved_usd(self) -> float:
        """What was saved, in dollars, as far as prices are known."""
        return usd(self.saved)

    @property
    def looped_usd(self) -> float:
        """What calls of loops cost, in dollars, as far as prices are known."""
        return usd(self.looped)

    def add(self, other: UsageTotals) -> None:
        """Add other totals."""
        for name in UsageTotals.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def subtract(self, other: UsageTotals) -> None:
        """Subtract totals that are a part of these."""
        for name in UsageTotals.__struct_fields__:
            setattr(self, name, getattr(self, name) - getattr(other, name))


class SessionUsage(msgspec.Struct):
    """Summed usage of one session, and the tokens of its latest minute."""

    first: float
    last: float
    calls: int = 0
    refused: int = 0
    tokens: int = 0
    cost: int = 0
    unpriced: int = 0
    minute: int = 0
    """Start of its latest minute …"""
    used: int = 0
    """… and the tokens of that minute."""
    model: str = ""
    """The latest model."""

    @property
    def cost_usd(self) -> float | None:
        """The cost in dollars; None if nothing that was used has a price."""
        return None if self.unpriced and not self.cost else usd(self.cost)

    def tokens_a_minute(self, now: float) -> int:
        """Return the burn rate: the tokens of the latest minute; 0 if that is over."""
        return self.used if now < self.minute + 2 * MINUTE_S else 0

    def add(self, other: SessionUsage) -> None:
        """Add later usage, or that of another instance."""
        self.first = min(self.first, other.first)
        if other.last >= self.last:
            self.last, self.model = other.last, other.model
        for name in ("calls", "refused", "tokens", "cost", "unpriced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.minute == self.minute:
            self.used += other.used
        elif other.minute > self.minute:
            self.minute, self.used = other.minute, other.used


class UsageBatch:
    """Usage to be written: totals by minute and key, and by session; and breaches of budgets."""

    def __init__(self) -> None:
        self.spending: dict[tuple[int, UsageKey], UsageTotals] = {}
        self.sessions: dict[SessionKey, SessionUsage] = {}
        self.breaches: dict[str, Breach] = {}

    def __len__(self) -> int:
        return len(self.spending) + len(self.sessions) + len(self.breaches)

    def totals_of(self, minute: int, spender: UsageKey) -> UsageTotals:
        """Return the totals of a key in a minute, to be added to."""
        key = minute, spender
        if key not in self.spending and len(self.spending) >= MAX_PENDING_ROWS:
            key = minute, OTHER_USAGE_KEY
        return self.spending.setdefault(key, UsageTotals())

    def add_breach(self, breach: Breach) -> None:
        """Add a breach; beyond MAX_PENDING_BREACHES those of further accounts are left out."""
        known = self.breaches.get(breach.id)
        if known is not None:
            known.add(breach)
        elif len(self.breaches) < MAX_PENDING_BREACHES:
            self.breaches[breach.id] = breach

    def add(self, other: UsageBatch) -> None:
        """Add another batch; beyond MAX_PENDING_ROWS keys are summed up."""
        for breach in other.breaches.values():
            self.add_breach(breach)
        for (minute, spender), totals in other.spending.items():
            self.totals_of(minute, spender).add(totals)
        for session, run in other.sessions.items():
            if session not in self.sessions and len(self.sessions) >= MAX_PENDING_ROWS:
                session = OTHER_SESSION_KEY
            self.sessions.setdefault(session, SessionUsage(run.first, run.first)).add(run)
