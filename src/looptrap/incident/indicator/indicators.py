"""All leading indicators together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from looptrap.dialect.model import MAX_NAME_CHARS
from looptrap.incident.indicator.alarm import IndicatorAlarm
from looptrap.incident.indicator.latency import LatencyIndicator
from looptrap.incident.indicator.model import PANES_PER_WINDOW, IndicatorName, Observation
from looptrap.incident.indicator.session import SessionIndicators
from looptrap.incident.indicator.tool_error import ToolErrorIndicator
from looptrap.incident.model import AlertEvent
from looptrap.incident.setting import IndicatorSettings


class Indicators:
    """Observes calls, and returns alert events when an indicator fires."""

    def __init__(self, settings: IndicatorSettings) -> None:
        self._pane = settings.window / PANES_PER_WINDOW
        self._window = settings.window
        self._end = 0.0
        """When the open pane ends; 0 before the first."""
        self._has_closed_pane = False
        self._alarms: dict[IndicatorName, IndicatorAlarm] = {}
        errors = self._alarm("tool_errors", settings.tool_errors)
        calls = self._alarm("tool_calls", settings.tool_calls)
        latency = self._alarm("latency", settings.latency)
        tokens = self._alarm("tokens", settings.tokens)
        burn = self._alarm("burn_rate", settings.burn_rate)
        self._errors = ToolErrorIndicator(errors) if errors is not None else None
        self._latencies = LatencyIndicator(latency) if latency is not None else None
        tracks_sessions = any(one is not None for one in (calls, tokens, burn))
        self._sessions = SessionIndicators(calls, tokens, burn) if tracks_sessions else None
        self.gauges: Mapping[str, tuple[float, bool]] = {}
        """For each indicator the value of its worst scope, and whether it fires."""
        self._update_gauges()

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The threshold of each indicator."""
        return {name: alarm.threshold for name, alarm in self._alarms.items()}

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
            if tools > 0 and errors is not None:
                errors.observe(caller, project, tools, failed)
            # Client errors are answered at once, and may name any model.
            if first_byte is not None and latencies is not None and not 400 <= status < 500:
                latencies.observe(provider, model[:MAX_NAME_CHARS], first_byte)
            if session and sessions is not None:
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

    def _alarm(self, name: IndicatorName, threshold: float | None) -> IndicatorAlarm | None:
        if threshold is None:
            return None
        return self._alarms.setdefault(name, IndicatorAlarm(name, threshold, self._window))

    def _close_panes(self, now: float) -> float:
        """Close panes until `now` falls into the open one; return when that ends."""
        is_first = not self._end
        # After a long silence, or a clock set back, the whole window is over.
        passed = (
            PANES_PER_WINDOW + 1 if now < self._end else int((now - self._end) // self._pane) + 1
        )
        for _ in range(0 if is_first else min(passed, PANES_PER_WINDOW + 1)):
            for one in (self._errors, self._latencies, self._sessions):
                if one is not None:
                    one.close_pane()
        self._update_gauges()
        self._has_closed_pane = True
        self._end = now - now % self._pane + self._pane
        return self._end

    def _update_gauges(self) -> None:
        # Replaced as a whole: a scrape may read it from another thread.
        worst: dict[IndicatorName, float] = {}
        if self._errors is not None:
            worst["tool_errors"] = self._errors.worst
        if self._latencies is not None:
            worst["latency"] = self._latencies.worst
        if self._sessions is not None:
            worst["tool_calls"] = self._sessions.worst_calls
            worst["tokens"] = self._sessions.worst_tokens
            worst["burn_rate"] = self._sessions.worst_burn
        self.gauges = {name: (worst[name], alarm.is_firing) for name, alarm in self._alarms.items()}
