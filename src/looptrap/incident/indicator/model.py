"""What one call shows, and whom an indicator is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeVar

IndicatorName = Literal["tool_errors", "tool_calls", "latency", "tokens", "burn_rate"]

PANES_PER_WINDOW = 30
"""A window is made of so many panes; indicators are told when one is full."""

RECOVERY_RATIO = 0.8
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


class IndicatorScope(NamedTuple):
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


class ThresholdCrossing(NamedTuple):
    """Something has passed its threshold."""

    scope: IndicatorScope
    value: float
    words: str
    """What is so, in a sentence without its end."""
    session: str = ""


K = TypeVar("K")
V = TypeVar("V")


def _ignore(_value: object) -> None:
    """Let a value go."""


class RecentMap(dict[K, V]):
    """Values made when first asked for; of more than `most` keys, those used longest ago go.

    It forgets by halves, so that a look-up is all in C: what was not used while half of `most`
    other keys came is forgotten when as many more have come.
    """

    def __init__(
        self, make: Callable[[K], V], most: int, on_drop: Callable[[V], None] = _ignore
    ) -> None:
        self._make = make
        self._half = max(most // 2, 1)
        self._on_drop = on_drop
        self._old: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        value = self._old.pop(key) if key in self._old else self._make(key)
        if len(self) >= self._half:
            dropped, self._old = self._old, self.copy()
            self.clear()
            for one in dropped.values():
                self._on_drop(one)
        self[key] = value
        return value

    def all(self) -> list[V]:
        """Return every value."""
        return [*self.values(), *self._old.values()]

    def forget(self, keys: Iterable[K]) -> None:
        """Let go of keys that are of no more use; nobody is told."""
        for key in keys:
            self.pop(key, None)
            self._old.pop(key, None)
