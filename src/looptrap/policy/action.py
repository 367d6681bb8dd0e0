"""Actions and ladders: which action is taken from which count on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import pairwise

from looptrap.errors import ConfigError


class Action(StrEnum):
    """What is done about a call, mildest first."""

    ALLOW = "allow"
    WARN = "warn"
    THROTTLE = "throttle"
    NUDGE = "nudge"
    STOP = "stop"
    BLOCK = "block"

    severity: int
    refuses: bool
    """Whether the call is answered here and never reaches the provider."""

    def __init__(self, _value: str) -> None:
        self.severity = len(self.__class__.__members__)
        self.refuses = _value in ("stop", "block")


def milder(one: Action, other: Action) -> Action:
    """Return the milder of two actions."""
    return one if one.severity < other.severity else other


class Ladder:
    """Thresholds and their actions; counts and severities rise together."""

    __slots__ = ("first", "last", "steps")

    def __init__(self, thresholds: Mapping[Action, int]) -> None:
        steps = sorted(thresholds.items(), key=lambda step: step[0].severity)
        if not steps:
            raise ConfigError("has no threshold, needs at least one")
        for (milder, low), (severer, high) in pairwise(steps):
            if low >= high:
                raise ConfigError(
                    f"{milder.value} = {low} and {severer.value} = {high}:"
                    " a severer action needs a higher threshold"
                )
        self.steps: tuple[tuple[Action, int], ...] = tuple(steps)
        self.first: int = steps[0][1]
        """The lowest count at which an action is taken."""
        self.last: int = steps[-1][1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ladder) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(self.steps)

    def __repr__(self) -> str:
        return f"Ladder({{{', '.join(f'{a.value}: {n}' for a, n in self.steps)}}})"

    @property
    def severest(self) -> Action:
        """The action at the highest counts."""
        return self.steps[-1][0]

    def at(self, count: int) -> Action:
        """Return the action for the `count`-th hit: the Nth hit trips a threshold of N."""
        taken = Action.ALLOW
        for action, threshold in self.steps:
            if count >= threshold:
                taken = action
        return taken

    def reached(self, count: int) -> int:
        """Return the highest threshold that a count has reached; the lowest where it has none."""
        return max((n for _, n in self.steps if n <= count), default=self.first)

    def refusal(self) -> Action | None:
        """Return the mildest refusing action, if the ladder has one."""
        return next((action for action, _ in self.steps if action.refuses), None)

    def times(self, factor: int) -> Ladder:
        """Return the same ladder with every threshold `factor` times as high."""
        return Ladder({action: threshold * factor for action, threshold in self.steps})

    def at_most(self, top: Action) -> Ladder:
        """Return the ladder without actions above `top`: that is taken in their place."""
        thresholds: dict[Action, int] = {}
        for action, threshold in self.steps:
            thresholds.setdefault(milder(action, top), threshold)
        return Ladder(thresholds)

    def override(self, threshold: int | None, action: Action | None) -> Ladder:
        """Return the ladder with its severest step changed; milder steps above it are dropped."""
        severest, highest = self.steps[-1]
        top = action or severest
        limit = threshold or highest
        milder = {a: n for a, n in self.steps[:-1] if a.severity < top.severity and n < limit}
        return Ladder({**milder, top: limit})
