"""Looptrap stops runaway LLM agents before the bill does."""

from typing import TYPE_CHECKING, Any

from looptrap.errors import (
    BudgetExceededError,
    CallError,
    ConfigError,
    LoopDetectedError,
    LooptrapError,
    RateLimitedError,
)

if TYPE_CHECKING:
    from looptrap.admission import Guard

__all__ = [
    "BudgetExceededError",
    "CallError",
    "ConfigError",
    "Guard",
    "LoopDetectedError",
    "LooptrapError",
    "RateLimitedError",
]

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """Import the guard when it is first asked for: `looptrap --help` needs none."""
    if name == "Guard":
        from looptrap.admission import Guard

        return Guard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
