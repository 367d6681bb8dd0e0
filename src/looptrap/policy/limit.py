"""Budgets: what calls may cost, whose, and in which time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Mode, Selector

PERIODS = {
    "5m": 300.0,
    "1h": 3_600.0,
    "1d": 86_400.0,
    "7d": 604_800.0,
    "30d": 2_592_000.0,
    "none": 0.0,
}
"""In which time a budget may be used up, in seconds; 0 where it does not come back."""

STAGES = Ladder({Action.WARN: 80, Action.THROTTLE: 95, Action.BLOCK: 100})


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much those who share these descriptors may use in a period."""

    name: str
    by: tuple[str, ...] = ("caller",)
    limit_usd: float | None = None
    limit_tokens: int | None = None
    period: str = "none"
    stages: Ladder = STAGES
    """What is done from how much of the limit on, in per cent."""
    delay: float = 2.0
    """Seconds for which a throttled call is held back."""
    output_tokens: int = 4_096
    """What an answer is taken to need at most where the call does not say."""
    mode: Mode = "enforce"
    select: Selector = field(default_factory=Selector)


RateKind = Literal["token_bucket", "token_bucket_llm"]

Values = tuple[tuple[str, str], ...]
"""Descriptors, and the values they must have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast those who share these descriptors may go.

    A `token_bucket` holds `burst` calls and is filled with `rps` of them a second. A
    `token_bucket_llm` holds the tokens of a minute (or `burst_tokens`), and of a day.
    """

    name: str
    kind: RateKind = "token_bucket"
    by: tuple[str, ...] = ("caller",)
    match: Values = ()
    """Only calls with all of these values are counted …"""
    unless: tuple[Values, ...] = ()
    """… and none with all values of one of these."""
    rps: float | None = None
    burst: int | None = None
    cost: str | None = None
    """The descriptor (`header:x-cost`, `query:weight`) that says for how many a call counts."""
    default_cost: int = 1
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    burst_tokens: int | None = None
    output_tokens: int = 1_000
    """What an answer is taken to need at most where the call does not say."""
    enabled: bool = True


class RateStatus(NamedTuple):
    """How much of a rate is left, as clients are told."""

    limit: int
    remaining: int
    reset: float
    """Seconds until all of it is there again."""

    @property
    def share(self) -> float:
        """Which part of it is left."""
        return self.remaining / self.limit
