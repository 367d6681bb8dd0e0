"""An alarm: told once, again only after quiet, and never in storms."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf

from looptrap.incident.event import event_id
from looptrap.incident.indicator.model import IndicatorName, IndicatorScope, ThresholdCrossing
from looptrap.incident.model import AlertEvent

REPEAT_INTERVAL_S = 3_600.0
"""A scope is told of at most once in so many seconds."""

MAX_SINGLE_EVENTS = 3
"""More scopes than this are one event with a number, once an hour; until then they wait."""

MAX_EVENTS_PER_HOUR = 10
"""Events about single scopes; beyond them, more wait until they are told together."""

MAX_SCOPES = 1_000
"""Scopes over the threshold that are told apart; nobody needs to hear of more."""


class _ScopeState:
    """How things stand in one scope."""

    __slots__ = ("fresh", "over", "told", "worst")

    def __init__(self, told: float = -inf) -> None:
        self.over = 0
        """How many are over the threshold: sessions, or the scope itself."""
        self.fresh = 0
        """Of these, how many people have not heard of."""
        self.told = told
        self.worst: ThresholdCrossing | None = None


class IndicatorAlarm:
    """Says what people hear of one indicator."""

    def __init__(self, name: IndicatorName, threshold: float, window: float) -> None:
        self.name = name
        self.threshold = threshold
        self._window = window
        self._standings: dict[IndicatorScope, _ScopeState] = {}
        self._told: deque[float] = deque([-inf] * MAX_EVENTS_PER_HOUR, MAX_EVENTS_PER_HOUR)
        self._told_many = -inf

    @property
    def is_firing(self) -> bool:
        """Whether something is over the threshold."""
        return any(one.over for one in self._standings.values())

    def rise(self, rise: ThresholdCrossing) -> None:
        """Note that something has passed the threshold."""
        standing = self._standings.get(rise.scope)
        if standing is None:
            if len(self._standings) >= MAX_SCOPES:
                return
            standing = self._standings[rise.scope] = _ScopeState()
        standing.over += 1
        standing.fresh += 1
        if standing.worst is None or rise.value > standing.worst.value:
            standing.worst = rise

    def fall(self, scope: IndicatorScope) -> None:
        """Note that something is back to normal; nobody is told of what is over."""
        standing = self._standings.get(scope)
        if standing is None or not standing.over:
            return
        standing.over -= 1
        standing.fresh = min(standing.fresh, standing.over)
        if not standing.fresh:
            standing.worst = None
        if not standing.over and standing.told == -inf:
            del self._standings[scope]

    def due(self, now: float) -> list[AlertEvent]:
        """Return what people are to be told now."""
        due: list[_ScopeState] = []
        for scope, one in list(self._standings.items()):
            if _is_recent(one.told, now):
                continue
            if one.fresh:
                due.append(one)
            elif not one.over:
                del self._standings[scope]
        return list(self._events(due, now)) if due else []

    def _events(self, due: list[_ScopeState], now: float) -> Iterator[AlertEvent]:
        due.sort(key=lambda one: -one.worst.value if one.worst is not None else 0.0)
        if len(due) > MAX_SINGLE_EVENTS:
            if not _is_recent(self._told_many, now):
                self._told_many = now
                yield self._event(due, now)
            return
        for one in due:
            if _is_recent(self._told[0], now):
                return
            self._told.append(now)
            yield self._event([one], now)

    def _event(self, told: list[_ScopeState], now: float) -> AlertEvent:
        """Return one event about the scopes given, the worst first, which are told by it."""
        worst, sessions = told[0].worst, sum(one.fresh for one in told)
        assert worst is not None  # as long as there is something fresh
        for one in told:
            one.told, one.fresh, one.worst = now, 0, None
        more = ""
        if len(told) > 1:
            more = f"; so are {len(told) - 1} more"
        elif sessions > 1:
            more = f"; so are {sessions - 1} more sessions"
        sentence = f"{worst.words}, above the threshold of {self.threshold:g}{more}."
        about = ["many"] if len(told) > 1 else [*worst.scope]
        scope = {**worst.scope._asdict(), "session": worst.session}
        return AlertEvent(
            id=event_id("indicator.fired", self.name, *about, str(int(now // REPEAT_INTERVAL_S))),
            name="indicator.fired",
            time=now,
            project=worst.scope.project if len(told) == 1 else "",
            stage="fired",
            title=f"Leading indicator {self.name}: {sentence}",
            data={
                "indicator": self.name,
                "value": round(worst.value, 3),
                "threshold": self.threshold,
                "window": self._window,
                "scope": {name: part for name, part in scope.items() if part},
                "scopes": len(told),
                "sessions": sessions if worst.session else 0,
                "explanation": sentence,
            },
        )


def _is_recent(then: float, now: float) -> bool:
    """Say whether something was in the last hour; what is to come was not: a clock was put back."""
    return 0 <= now - then < REPEAT_INTERVAL_S
