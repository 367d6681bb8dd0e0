"""What one call shows, and whom an indicator is about."""

from __future__ import annotations

from typing import Literal, NamedTuple

IndicatorName = Literal["tool_errors", "tool_calls", "latency", "tokens", "burn_rate"]

PANES = 30
"""A window is made of so many panes; indicators are told when one is full."""

BACK = 0.8
"""What has fired is back to normal at this part of its threshold: else it would flicker."""


class Observation(NamedTuple):
    """What one call shows, once it is settled."""

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
    """Tool results that came with the latest round of this call."""
    failed: int = 0
    """Of these, the failures."""
    turn_calls: int = -1
    """Tool calls since a person last spoke; -1 where that is not known."""


class Scope(NamedTuple):
    """Whom or what an indicator is about; what does not matter to it is empty."""

    caller: str = ""
    project: str = ""
    model: str = ""
    provider: str = ""

    def __str__(self) -> str:
        """Name it in a sentence."""
        if self.provider or self.model:
            return "/".join(part for part in (self.provider, self.model) if part)
        return f"project {self.project}" if self.project else f"caller {self.caller or 'unknown'}"


class Rise(NamedTuple):
    """Something has passed its threshold."""

    scope: Scope
    value: float
    words: str
    """What is so, in a sentence without its end."""
    session: str = ""
