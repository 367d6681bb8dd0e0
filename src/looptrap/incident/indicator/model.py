"""Observations of calls, and the scopes of indicators."""

from __future__ import annotations

from typing import Literal, NamedTuple

IndicatorName = Literal["tool_errors", "tool_calls", "latency", "tokens", "burn_rate"]

PANES_PER_WINDOW = 30
"""Panes of a window; indicators are judged when one is full."""

RECOVERY_RATIO = 0.8
"""An indicator recovers below this share of its threshold: otherwise it would flap."""


class Observation(NamedTuple):
    """What indicators observe of one settled call."""

    time: float
    caller: str = ""
    project: str = ""
    session: str = ""
    model: str = ""
    provider: str = ""
    status: int = 0
    first_byte: float | None = None
    """Seconds until the provider began to answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    tools: int = 0
    """Tool results in the latest round of this call."""
    failed: int = 0
    """Failures among these."""
    turn_calls: int = -1
    """Tool calls since a person last spoke; -1 if unknown."""


class IndicatorScope(NamedTuple):
    """The caller, project or model of an indicator; parts that do not apply are empty."""

    caller: str = ""
    project: str = ""
    model: str = ""
    provider: str = ""

    def __str__(self) -> str:
        """Return the name used in sentences."""
        if self.provider or self.model:
            return "/".join(part for part in (self.provider, self.model) if part)
        return f"project {self.project}" if self.project else f"caller {self.caller or 'unknown'}"


class ThresholdCrossing(NamedTuple):
    """A scope or session that has passed a threshold."""

    scope: IndicatorScope
    value: float
    text: str
    """The sentence for the alert, without its end."""
    session: str = ""
