"""What can be set of incidents, indicators and the channels through which people hear of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DAY = 86_400.0

ChannelKind = Literal["webhook", "slack", "apprise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSettings:
    """When an incident is over, and how long it is remembered."""

    quiet: float = 300.0
    """Seconds without a further sighting after which an incident is over."""
    keep: float = 90 * DAY
    max_size: int = 1 << 30
    """Bytes that the history may take; beyond it, the oldest closed incidents and spending go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndicatorSettings:
    """From where on each indicator fires; None switches one off."""

    window: float = 300.0
    tool_errors: float | None = 0.5
    """The share of tool calls that failed."""
    tool_calls: int | None = 15
    """Tool calls of one session since a person last spoke."""
    latency: float | None = 5.0
    """p95 of the time to first byte against its baseline."""
    tokens: float | None = 3.0
    """Tokens of a session against the rolling average of sessions."""
    burn_rate: float | None = 5.0
    """Tokens that a session uses a minute against the rolling mean of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """One way to reach people."""

    name: str
    kind: ChannelKind = "webhook"
    url: str | None = None
    url_env: str | None = None
    """The variable with the URL, where that is itself a secret."""
    secret_env: str | None = None
    events: tuple[str, ...] = ("*",)
    projects: tuple[str, ...] = ()
    """Projects it hears of; none stands for all."""
    allow_private: bool = False
    allow_http: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Where spans go; without an endpoint none are made."""

    endpoint: str | None = None
    """The base URL of a collector that speaks OTLP over HTTP."""
    service: str = "looptrap"
    sample: float = 1.0
    """The share of traces begun here that is kept; one that a client began is kept as it says."""
