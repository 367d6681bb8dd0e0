"""What an operator knows of a tool: how often it may be called again, or that it never loops."""

from __future__ import annotations

from dataclasses import dataclass

from looptrap.policy.action import Ladder


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """Thresholds of a tool's own for what is read from histories; or none at all."""

    ladder: Ladder | None = None
    exempt: bool = False
    """Whether rounds that call nothing but such tools count for nothing."""
