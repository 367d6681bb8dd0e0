"""What can be set of money."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceSettings:
    """What a model costs, in dollars a million tokens; what is None costs like the rest."""

    input: float
    output: float
    cached_input: float | None = None
    """Input that is read from the provider's cache …"""
    cache_write: float | None = None
    """… and input that is written to it."""
    audio_input: float | None = None
    audio_output: float | None = None
    context_window: int | None = None
    """How many tokens fit into one call."""
