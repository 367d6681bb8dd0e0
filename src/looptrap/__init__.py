"""Looptrap stops runaway LLM agents before the bill does."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from looptrap.errors import (
    BudgetExceededError,
    CallError,
    ConfigError,
    KilledError,
    LoopDetectedError,
    LooptrapError,
    RateLimitedError,
    RefusedError,
)

if TYPE_CHECKING:
    from looptrap.client.guard import guard
    from looptrap.client.session import session
    from looptrap.client.tool import tool
    from looptrap.engine import Guard

__all__ = [
    "BudgetExceededError",
    "CallError",
    "ConfigError",
    "Guard",
    "KilledError",
    "LoopDetectedError",
    "LooptrapError",
    "RateLimitedError",
    "RefusedError",
    "guard",
    "session",
    "tool",
]

__version__ = "0.1.0"

_ROOMS = {
    "Guard": "looptrap.engine",
    "guard": "looptrap.client.guard",
    "session": "looptrap.client.session",
    "tool": "looptrap.client.tool",
}
"""Where names come from that are imported when first asked for: `looptrap --help` needs none."""


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(import_module(_ROOMS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
