"""OpenAI's clients of a gateway, with our exceptions and sessions. Needs `openai`."""

from looptrap.client.openai import (
    AsyncOpenAI,
    BudgetExceededError,
    KilledError,
    LoopDetectedError,
    OpenAI,
    RateLimitedError,
)

__all__ = [
    "AsyncOpenAI",
    "BudgetExceededError",
    "KilledError",
    "LoopDetectedError",
    "OpenAI",
    "RateLimitedError",
]
