"""Looptrap stops runaway LLM agents before the bill does."""

from typing import TYPE_CHECKING, Any

from looptrap.errors import CallError, ConfigError, LoopDetectedError, LooptrapError

if TYPE_CHECKING:
    from looptrap.guard import Guard

__all__ = ["CallError", "ConfigError", "Guard", "LoopDetectedError", "LooptrapError"]

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """Import the guard when it is first asked for: `looptrap --help` needs none."""
    if name == "Guard":
        from looptrap.guard import Guard

        return Guard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
