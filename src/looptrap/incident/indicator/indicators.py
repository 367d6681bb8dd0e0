"""All leading indicators together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple, get_args

from looptrap.dialect.model import MAX_NAME_CHARS
from looptrap.incident.indicator.alarm import IndicatorAlarm, IndicatorName
from looptrap.incident.indicator.session import SessionIndicators
from looptrap.incident.indicator.window import (
    PANES_PER_WINDOW,
    LatencyIndicator,
    ToolErrorIndicator,
)
from looptrap.incident.model import AlertEvent
from looptrap.incident.setting import IndicatorSettings


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


class Indicators:
    """Observes calls, and returns alert events when an indicator fires."""

    def __init__(self, settings: IndicatorSettings) -> None:
        self._window = settings.window
        self._pane = settings.window / PANES_PER_WINDOW
        self._end = 0.0
        """When the open pane ends; 0 before the first."""
        self._has_closed_pane = False
        names: tuple[IndicatorName, ...] = get_args(IndicatorName)
        given = {name: getattr(settings, name) for name in names}
        self.thresholds: Mapping[str, float] = {
            name: threshold for name, threshold in given.items() if threshold is not None
        }
        # One that is switched off has a threshold that nothing passes.
        self._alarms: dict[str, IndicatorAlarm] = {
            name: IndicatorAlarm(name, self.thresholds.get(name, inf), settings.window)
            for name in names
        }
        alarms = self._alarms
        self._errors = ToolErrorIndicator(alarms["tool_errors"])
        self._latencies = LatencyIndicator(alarms["latency"])
        self._sessions = SessionIndicators(
            alarms["tool_calls"], alarms["tokens"], alarms["burn_rate"]
        )
        self.gauges: Mapping[str, tuple[float, bool]] = {}
        """For each indicator the value of its worst scope, and whether it fires."""
        self._update_gauges()

    def observe(self, observations: Iterable[Observation]) -> None:
        """Observe calls, roughly in the order of their time."""
        errors, latencies, sessions = self._errors, self._latencies, self._sessions
        end = self._end
        for (
            time, caller, project, session, model, provider, status, first_byte,
            input_tokens, output_tokens, tools, failed, turn_calls,
        ) in observations:  # fmt: skip
            if time >= end:
                end = self._close_panes(time)
            if tools > 0:
                errors.observe(caller, project, tools, failed)
            # Client errors are answered at once, and may name any model.
            if first_byte is not None and not 400 <= status < 500:
                latencies.observe(provider, model[:MAX_NAME_CHARS], first_byte)
            if session:
                tokens = input_tokens + output_tokens
                sessions.observe(caller, project, session[:MAX_NAME_CHARS], tokens, turn_calls)

    def tick(self, now: float) -> list[AlertEvent]:
        """Return the events to send now."""
        if now >= self._end or now < self._end - self._window:
            self._close_panes(now)
        if not self._has_closed_pane:
            return []
        self._has_closed_pane = False
        return [event for alarm in self._alarms.values() for event in alarm.due(now)]

    def _close_panes(self, now: float) -> float:
        """Close panes until `now` falls into the open one; return when that ends."""
        # After a long silence, or a clock set back, the whole window is over.
        passed = PANES_PER_WINDOW + 1
        if now >= self._end:
            passed = min(passed, int((now - self._end) // self._pane) + 1)
        for _ in range(passed if self._end else 0):
            for one in (self._errors, self._latencies, self._sessions):
                one.close_pane()
        self._update_gauges()
        self._has_closed_pane = True
        self._end = now - now % self._pane + self._pane
        return self._end

    def _update_gauges(self) -> None:
        # Replaced as a whole: a scrape may read it from another thread.
        enabled = (self._alarms[name] for name in self.thresholds)
        self.gauges = {alarm.name: (alarm.worst, alarm.is_firing) for alarm in enabled}
