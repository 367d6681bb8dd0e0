"""IndicatorAlarm: alerts of one indicator, at most one a scope and hour, summed up when many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf

from looptrap.incident.event import event_id
from looptrap.incident.indicator.model import IndicatorName, IndicatorScope, ThresholdCrossing
from looptrap.incident.model import AlertEvent

REPEAT_INTERVAL_S = 3_600.0
"""Seconds between two alerts about one scope."""

MAX_SINGLE_EVENTS = 3
"""More scopes than this become one event with their number, once an hour."""

MAX_EVENTS_PER_HOUR = 10
"""Events about single scopes; further scopes wait for the common event."""

MAX_SCOPES = 1_000
"""Scopes over the threshold that are tracked; further ones are ignored."""


class _ScopeState:
    """The state of one scope."""

    __slots__ = ("alerted", "over", "unsent", "worst")

    def __init__(self, alerted: float = -inf) -> None:
        self.over = 0
        """Sessions over the threshold, or 1 for the scope itself."""
        self.unsent = 0
        """How many of these have not been alerted."""
        self.alerted = alerted
        self.worst: ThresholdCrossing | None = None


class IndicatorAlarm:
    """Decides which alerts are sent about one indicator."""

    def __init__(self, name: IndicatorName, threshold: float, window: float) -> None:
        self.name = name
        self.threshold = threshold
        self._window = window
        self._scopes: dict[IndicatorScope, _ScopeState] = {}
        self._sent: deque[float] = deque([-inf] * MAX_EVENTS_PER_HOUR, MAX_EVENTS_PER_HOUR)
        self._sent_many = -inf

    @property
    def is_firing(self) -> bool:
        """Whether any scope is over the threshold."""
        return any(one.over for one in self._scopes.values())

    def rise(self, rise: ThresholdCrossing) -> None:
        """Record that a scope or session passed the threshold."""
        state = self._scopes.get(rise.scope)
        if state is None:
            if len(self._scopes) >= MAX_SCOPES:
                return
            state = self._scopes[rise.scope] = _ScopeState()
        state.over += 1
        state.unsent += 1
        if state.worst is None or rise.value > state.worst.value:
            state.worst = rise

    def fall(self, scope: IndicatorScope) -> None:
        """Record that one is back to normal; what was not sent by then is not sent."""
        state = self._scopes.get(scope)
        if state is None or not state.over:
            return
        state.over -= 1
        state.unsent = min(state.unsent, state.over)
        if not state.unsent:
            state.worst = None
        if not state.over and state.alerted == -inf:
            del self._scopes[scope]

    def due(self, now: float) -> list[AlertEvent]:
        """Return the events to send now."""
        due: list[_ScopeState] = []
        for scope, one in list(self._scopes.items()):
            if _is_recent(one.alerted, now):
                continue
            if one.unsent:
                due.append(one)
            elif not one.over:
                del self._scopes[scope]
        return list(self._events(due, now)) if due else []

    def _events(self, due: list[_ScopeState], now: float) -> Iterator[AlertEvent]:
        due.sort(key=lambda one: -one.worst.value if one.worst is not None else 0.0)
        if len(due) > MAX_SINGLE_EVENTS:
            if not _is_recent(self._sent_many, now):
                self._sent_many = now
                yield self._event(due, now)
            return
        for one in due:
            if _is_recent(self._sent[0], now):
                return
            self._sent.append(now)
            yield self._event([one], now)

    def _event(self, alerted: list[_ScopeState], now: float) -> AlertEvent:
        """Return one event about these scopes, the worst first, and mark them as alerted."""
        worst, sessions = alerted[0].worst, sum(one.unsent for one in alerted)
        assert worst is not None  # there is one while something is unsent
        for one in alerted:
            one.alerted, one.unsent, one.worst = now, 0, None
        more = ""
        if len(alerted) > 1:
            more = f"; so are {len(alerted) - 1} more"
        elif sessions > 1:
            more = f"; so are {sessions - 1} more sessions"
        sentence = f"{worst.text}, above the threshold of {self.threshold:g}{more}."
        about = ["many"] if len(alerted) > 1 else [*worst.scope]
        scope = {**worst.scope._asdict(), "session": worst.session}
        return AlertEvent(
            id=event_id("indicator.fired", self.name, *about, str(int(now // REPEAT_INTERVAL_S))),
            name="indicator.fired",
            time=now,
            project=worst.scope.project if len(alerted) == 1 else "",
            stage="fired",
            title=f"Leading indicator {self.name}: {sentence}",
            data={
                "indicator": self.name,
                "value": round(worst.value, 3),
                "threshold": self.threshold,
                "window": self._window,
                "scope": {name: part for name, part in scope.items() if part},
                "scopes": len(alerted),
                "sessions": sessions if worst.session else 0,
                "explanation": sentence,
            },
        )


def _is_recent(then: float, now: float) -> bool:
    """Return whether `then` is in the last hour; the future is not: the clock was set back."""
    return 0 <= now - then < REPEAT_INTERVAL_S
