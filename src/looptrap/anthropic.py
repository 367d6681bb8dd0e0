"""Anthropic's clients of a gateway, with our exceptions and sessions. Needs `anthropic`."""

from looptrap.client.anthropic import (
    Anthropic,
    AsyncAnthropic,
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    RateLimitedError,
)

__all__ = [
    "Anthropic",
    "AsyncAnthropic",
    "BudgetExceededError",
    "KilledError",
    "LoopDetectedError",
    "RateLimitedError",
]
