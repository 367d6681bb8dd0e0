"""Looptrap stops runaway LLM agents before the bill does."""

__version__ = "0.1.0.dev0"
