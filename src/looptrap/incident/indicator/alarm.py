"""IndicatorAlarm: alerts of one indicator, at most one a scope and hour, summed up when many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal, NamedTuple

from looptrap.incident.event import event_id
from looptrap.incident.model import AlertEvent

IndicatorName = Literal["tool_errors", "tool_calls", "latency", "tokens", "burn_rate"]

PANES_PER_WINDOW = 30
"""Panes of a window; indicators are judged when one is full."""

RECOVERY_RATIO = 0.8
"""An indicator recovers below this share of its threshold: otherwise it would flap."""

REPEAT_INTERVAL_S = 3_600.0
"""Seconds between two alerts about one scope."""

MAX_SINGLE_EVENTS = 3
"""More scopes than this become one event with their number, once an hour."""

MAX_EVENTS_PER_HOUR = 10
"""Events about single scopes; further scopes wait for the common event."""

MAX_SCOPES = 1_000
"""Scopes over the threshold that are tracked; further ones are ignored."""


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


@dataclass(slots=True, eq=False)
class Subject:
    """What is compared with the threshold: a scope, or a session of one."""

    key: tuple[str, ...]
    scope: IndicatorScope
    session: str = ""


class ThresholdCrossing(NamedTuple):
    """A subject that has passed the threshold."""

    subject: Subject
    value: float
    text: str
    """The sentence for the alert, without its end."""


@dataclass(slots=True, eq=False)
class _ScopeState:
    """The state of one scope."""

    over: int = 0
    """Subjects over the threshold."""
    unsent: int = 0
    """How many of these have not been alerted."""
    alerted: float = -inf
    worst: ThresholdCrossing | None = None


class IndicatorAlarm:
    """Decides which alerts are sent about one indicator."""

    def __init__(self, name: IndicatorName, threshold: float, window: float) -> None:
        self.name = name
        self.threshold = threshold
        self.worst = 0.0
        """The highest value in the window, of subjects of which enough is known."""
        self._window = window
        self._over: dict[tuple[str, ...], IndicatorScope] = {}
        """Subjects over the threshold, by key."""
        self._scopes: dict[IndicatorScope, _ScopeState] = {}
        self._sent: deque[float] = deque([-inf] * MAX_EVENTS_PER_HOUR, MAX_EVENTS_PER_HOUR)
        self._sent_many = -inf

    @property
    def is_firing(self) -> bool:
        """Whether any subject is over the threshold."""
        return bool(self._over)

    def judge(
        self,
        subject: Subject,
        value: float,
        describe: Callable[[], str],
        *,
        can_rise: bool = True,
        can_fall: bool = True,
    ) -> None:
        """Compare the value of a subject with the threshold."""
        if subject.key in self._over:
            if can_fall and value <= self.threshold * RECOVERY_RATIO:
                self.fall(subject)
        elif can_rise and value > self.threshold:
            self.rise(ThresholdCrossing(subject, value, describe()))

    def rise(self, crossing: ThresholdCrossing) -> None:
        """Record that a subject passed the threshold."""
        subject = crossing.subject
        state = self._scopes.get(subject.scope)
        if state is None:
            if len(self._scopes) >= MAX_SCOPES:
                return
            state = self._scopes[subject.scope] = _ScopeState()
        self._over[subject.key] = subject.scope
        state.over += 1
        state.unsent += 1
        if state.worst is None or crossing.value > state.worst.value:
            state.worst = crossing

    def fall(self, subject: Subject) -> None:
        """Record that one is back to normal; what was not sent by then is not sent."""
        scope = self._over.pop(subject.key, None)
        if scope is None:
            return
        state = self._scopes[scope]
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
        scope, session = worst.subject.scope, worst.subject.session
        more = ""
        if len(alerted) > 1:
            more = f"; so are {len(alerted) - 1} more"
        elif sessions > 1:
            more = f"; so are {sessions - 1} more sessions"
        sentence = f"{worst.text}, above the threshold of {self.threshold:g}{more}."
        about = ["many"] if len(alerted) > 1 else [*scope]
        parts = {**scope._asdict(), "session": session}
        return AlertEvent(
            id=event_id("indicator.fired", self.name, *about, str(int(now // REPEAT_INTERVAL_S))),
            name="indicator.fired",
            time=now,
            project=scope.project if len(alerted) == 1 else "",
            stage="fired",
            title=f"Leading indicator {self.name}: {sentence}",
            data={
                "indicator": self.name,
                "value": round(worst.value, 3),
                "threshold": self.threshold,
                "window": self._window,
                "scope": {name: part for name, part in parts.items() if part},
                "scopes": len(alerted),
                "sessions": sessions if session else 0,
                "explanation": sentence,
            },
        )


def _is_recent(then: float, now: float) -> bool:
    """Return whether `then` is in the last hour; the future is not: the clock was set back."""
    return 0 <= now - then < REPEAT_INTERVAL_S
