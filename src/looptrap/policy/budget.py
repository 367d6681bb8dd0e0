"""Budgets: what calls may cost, whose, and in which time."""

from __future__ import annotations

from dataclasses import dataclass, field

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
