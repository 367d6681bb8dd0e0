"""Looptrap stops runaway LLM agents before the bill does."""

from looptrap.errors import CallError, ConfigError, LoopDetectedError, LooptrapError
from looptrap.guard import Guard

__all__ = ["CallError", "ConfigError", "Guard", "LoopDetectedError", "LooptrapError"]

__version__ = "0.1.0.dev0"
