"""Rules: what to watch, how often it may happen, and what to do then."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from looptrap.detect import signals
from looptrap.detect.scope import HIT_LIMIT, Similarity, Window
from looptrap.errors import ConfigError
from looptrap.policy.action import Action, Ladder

SCOPES = ("conversation", "request", "session", "tool")
"""What a rule can count across requests."""

SIGNALS = tuple(signals.SIGNALS)
"""What a rule can read from the history inside one request."""

ANSWERS = tuple(signals.ANSWERS)
"""What a rule can hear in the answer."""

Parts = Literal["all", "content", "calls"]

UNNAMED_FACTOR = 10
"""Calls without a session id share a fingerprint; their thresholds are this much higher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Act when what it watches happens as often, within its window, as its ladder says."""

    name: str
    watch: str
    ladder: Ladder
    by: tuple[str, ...] = ("caller",)
    similarity: Similarity = "exact"
    tail: int = 3
    parts: Parts = "all"
    """What is compared: everything, texts only, or (of a history) calls without their results."""
    rounds: int | None = None
    """How many of the latest rounds a history signal looks at; None: as many as it mostly needs."""
    window: Window = field(default_factory=Window)
    cooldown: float = 0.0
    extend: bool = False
    """Whether a refusal during a cooldown starts the cooldown anew."""
    retry_after: float | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        most = HIT_LIMIT // UNNAMED_FACTOR
        if self.watch == "session" and self.ladder.last > most:
            raise ConfigError(
                f"rule {self.name!r}: threshold is {self.ladder.last}, must be {most} or less to"
                f" watch sessions (calls without one are counted {UNNAMED_FACTOR} times as far)"
            )

    @property
    def looks_at(self) -> int:
        """How many of the latest rounds are looked at; 0 where that has no bound."""
        return self.rounds or signals.ROUNDS.get(self.watch, 0)

    def override(
        self,
        *,
        threshold: int | None = None,
        action: Action | None = None,
        window: float | None = None,
        cooldown: float | None = None,
    ) -> Rule:
        """Return the rule with a project's own values in place of its own.

        A threshold is for what is counted across requests: each signal counts in its own way.
        """
        return replace(
            self,
            ladder=self.ladder.override(threshold if self.watch in SCOPES else None, action),
            window=self.window if window is None else Window(window, self.window.kind),
            cooldown=self.cooldown if cooldown is None else cooldown,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """Thresholds of a tool's own for what is read from histories; or none at all."""

    ladder: Ladder | None = None
    exempt: bool = False
    """Whether rounds that call nothing but such tools count for nothing."""
