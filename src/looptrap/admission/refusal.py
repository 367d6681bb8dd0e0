"""Refusals as exceptions, for those who ask from inside a process."""

from __future__ import annotations

from looptrap.errors import (
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
    RefusedError,
)
from looptrap.policy.verdict import Verdict


def refusal(verdict: Verdict) -> RefusedError:
    """Return what to raise for a verdict that refuses."""
    match verdict.reason:
        case "budget_exceeded":
            return BudgetExceededError(
                verdict.message,
                budget=verdict.rule,
                percent=verdict.count,
                fingerprint=verdict.fingerprint,
            )
        case "rate_limited":
            return RateLimitedError(
                verdict.message, rate=verdict.rule, retry_after=verdict.retry_after or 0.0
            )
        case "killed":
            return KilledError(verdict.message, rule=verdict.rule)
        case _:
            return LoopDetectedError(
                verdict.message,
                hit_count=verdict.count,
                cooldown_seconds=verdict.cooldown_left,
                fingerprint=verdict.fingerprint,
                rule=verdict.rule,
                evidence=verdict.evidence,
            )
