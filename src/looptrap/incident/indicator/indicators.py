"""All leading indicators together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from looptrap.dialect.model import LONGEST_NAME
from looptrap.incident.indicator.alarm import IndicatorAlarm
from looptrap.incident.indicator.latency import LatencyIndicator
from looptrap.incident.indicator.model import PANES_PER_WINDOW, IndicatorName, Observation
from looptrap.incident.indicator.session import SessionIndicators
from looptrap.incident.indicator.tool_error import ToolErrorIndicator
from looptrap.incident.model import AlertEvent
from looptrap.incident.setting import IndicatorSettings


class Indicators:
    """Observes calls; says when they begin to look as before an incident."""

    def __init__(self, settings: IndicatorSettings) -> None:
        self._pane = settings.window / PANES_PER_WINDOW
        self._window = settings.window
        self._end = 0.0
        """When the pane that is open is full; 0 before the first."""
        self._is_news = False
        self._alarms: dict[IndicatorName, IndicatorAlarm] = {}
        errors = self._alarm("tool_errors", settings.tool_errors)
        calls = self._alarm("tool_calls", settings.tool_calls)
        latency = self._alarm("latency", settings.latency)
        tokens = self._alarm("tokens", settings.tokens)
        burn = self._alarm("burn_rate", settings.burn_rate)
        self._errors = ToolErrorIndicator(errors) if errors is not None else None
        self._latencies = LatencyIndicator(latency) if latency is not None else None
        follows = any(one is not None for one in (calls, tokens, burn))
        self._sessions = SessionIndicators(calls, tokens, burn) if follows else None
        self.gauges: Mapping[str, tuple[float, bool]] = {}
        """Of every indicator the value of its worst scope, and whether it fires."""
        self._gauge()

    @property
    def thresholds(self) -> Mapping[str, float]:
        """From where on each indicator fires."""
        return {name: alarm.threshold for name, alarm in self._alarms.items()}

    def observe(self, observations: Iterable[Observation]) -> None:
        """Take calls, in about the order in which they were settled."""
        errors, latencies, sessions = self._errors, self._latencies, self._sessions
        end = self._end
        for (
            time, caller, project, session, model, provider, status, first_byte,
            input_tokens, output_tokens, tools, failed, turn_calls,
        ) in observations:  # fmt: skip
            if time >= end:
                end = self._turn(time)
            if tools > 0 and errors is not None:
                errors.take(caller, project, tools, failed)
            # Whoever asks for what is not there is answered at once, and may name any model.
            if first_byte is not None and latencies is not None and not 400 <= status < 500:
                latencies.take(provider, model[:LONGEST_NAME], first_byte)
            if session and sessions is not None:
                tokens = input_tokens + output_tokens
                sessions.take(caller, project, session[:LONGEST_NAME], tokens, turn_calls)

    def tick(self, now: float) -> list[AlertEvent]:
        """Return what people are to be told by now."""
        if now >= self._end or now < self._end - self._window:
            self._turn(now)
        if not self._is_news:
            return []
        self._is_news = False
        return [event for alarm in self._alarms.values() for event in alarm.due(now)]

    def _alarm(self, name: IndicatorName, threshold: float | None) -> IndicatorAlarm | None:
        if threshold is None:
            return None
        return self._alarms.setdefault(name, IndicatorAlarm(name, threshold, self._window))

    def _turn(self, now: float) -> float:
        """Close panes until one is open that `now` falls into; return when that is full."""
        is_first = not self._end
        # After a long silence, or where the clock was put back, all that was seen is over.
        passed = (
            PANES_PER_WINDOW + 1 if now < self._end else int((now - self._end) // self._pane) + 1
        )
        for _ in range(0 if is_first else min(passed, PANES_PER_WINDOW + 1)):
            for one in (self._errors, self._latencies, self._sessions):
                if one is not None:
                    one.turn()
        self._gauge()
        self._is_news = True
        self._end = now - now % self._pane + self._pane
        return self._end

    def _gauge(self) -> None:
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
