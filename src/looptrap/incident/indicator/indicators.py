"""Indicators: all leading indicators together; those over a window: tool errors, and latency."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from math import exp, inf, log
from typing import NamedTuple, get_args

from looptrap.bounded import RecentMap
from looptrap.dialect.model import MAX_NAME_CHARS
from looptrap.incident.indicator.alarm import (
    PANES_PER_WINDOW,
    IndicatorAlarm,
    IndicatorName,
    IndicatorScope,
    Subject,
)
from looptrap.incident.indicator.session import SessionIndicators
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


MIN_TOOL_CALLS = 10
"""Fewer tool calls in the window never fire."""

MAX_CALLERS = 5_000
"""Callers that are tracked."""


class _Caller(Subject):
    __slots__ = ("_panes", "all_failed", "all_tools", "failed", "tools")

    def __init__(self, key: tuple[str, ...]) -> None:
        super().__init__(key, IndicatorScope(*key))
        self.tools = self.failed = 0
        """In the open pane."""
        self.all_tools = self.all_failed = 0
        """In the window without the open pane."""
        self._panes: deque[tuple[int, int]] = deque()

    @property
    def share(self) -> float:
        return self.all_failed / self.all_tools if self.all_tools else 0.0

    def close_pane(self) -> None:
        """Add the open pane to the window, and drop the oldest."""
        self._panes.append((self.tools, self.failed))
        self.all_tools += self.tools
        self.all_failed += self.failed
        self.tools = self.failed = 0
        if len(self._panes) > PANES_PER_WINDOW:
            tools, failed = self._panes.popleft()
            self.all_tools -= tools
            self.all_failed -= failed

    def describe(self) -> str:
        calls = f"{self.all_failed} of {self.all_tools}"
        return f"{self.share:.0%} of the tool calls of {self.scope} failed ({calls})"


class ToolErrorIndicator:
    """The share of a caller's tool calls that failed."""

    def __init__(self, alarm: IndicatorAlarm) -> None:
        self._alarm = alarm
        self._callers: RecentMap[tuple[str, ...], _Caller] = RecentMap(
            _Caller, MAX_CALLERS, alarm.fall
        )

    def observe(self, caller: str, project: str, tools: int, failed: int) -> None:
        """Count the tool calls of one round."""
        one = self._callers[caller, project]
        one.tools += tools
        one.failed += failed

    def close_pane(self) -> None:
        """Close a pane, and judge every caller by its window."""
        worst, quiet = 0.0, []
        for one in self._callers.all():
            one.close_pane()
            is_known = one.all_tools >= MIN_TOOL_CALLS
            self._alarm.judge(one, one.share, one.describe, can_rise=is_known)
            if is_known:
                worst = max(worst, one.share)
            elif not one.all_tools:
                quiet.append(one.key)
        self._alarm.worst = worst
        self._callers.forget(quiet)


MIN_ANSWERS = 20
"""Fewer answers in the window have no p95."""

MAX_OUTLIERS = 4
"""Slow answers that are ignored when there are few: the slowest twentieth may be chance."""

FULL_STEP_ANSWERS = 100
"""Answers in a window that move the baseline by a full step; fewer move it less."""

LEARNING_WINDOWS = 6
"""Windows with enough answers before anything is compared; they move the baseline faster."""

LEARNING_STEP, BASELINE_STEP = 0.1, 0.01
"""By how much one window may move the baseline, however slow its answers were."""

MIN_SLOW_S = 0.1
"""Below this p95 nothing is slow."""

MAX_MODELS = 512
"""Models of providers that are tracked."""

MAX_ANSWERS_PER_PANE = 256
"""Answers that are measured per pane."""

MIN_BUCKET_S, BUCKET_LOG_WIDTH, BUCKET_COUNT = 0.001, log(1.1), 150
"""Buckets of times grow by a tenth: from a millisecond to half an hour."""


def _bucket(seconds: float) -> int:
    if seconds <= MIN_BUCKET_S:
        return 0
    return min(int(log(seconds / MIN_BUCKET_S) / BUCKET_LOG_WIDTH), BUCKET_COUNT - 1)


def _seconds(bucket: int) -> float:
    return MIN_BUCKET_S * exp((bucket + 0.5) * BUCKET_LOG_WIDTH)


class _Model(Subject):
    """The answers of one model of one provider."""

    __slots__ = ("_age", "_counts", "_panes", "answers", "baseline", "p95", "values", "windows")

    def __init__(self, key: tuple[str, ...]) -> None:
        super().__init__(key, IndicatorScope(provider=key[0], model=key[1]))
        self.values: list[float] = []
        """Seconds of answers in the open pane."""
        self.answers = 0
        self.p95 = 0.0
        """Of the window without the open pane."""
        self.baseline = 0.0
        self.windows = 0
        """Windows that moved the baseline."""
        self._counts: Counter[int] = Counter()
        """Answers of the window by bucket."""
        self._panes: deque[Counter[int]] = deque()
        self._age = 0  # in panes, since the baseline was moved

    @property
    def is_known(self) -> bool:
        """Whether there are enough answers to compare them with the baseline."""
        return self.windows >= LEARNING_WINDOWS and self.answers >= MIN_ANSWERS

    @property
    def ratio(self) -> float:
        """The p95 as a multiple of the baseline."""
        return self.p95 / self.baseline if self.baseline else 0.0

    def close_pane(self) -> None:
        """Add the open pane to the window, and drop the oldest."""
        new = Counter(map(_bucket, self.values))
        self.values = []
        self._panes.append(new)
        old = self._panes.popleft() if len(self._panes) > PANES_PER_WINDOW else Counter[int]()
        if new or old:
            self._counts.update(new)
            self._counts.subtract(old)
            self.answers += new.total() - old.total()
            self.p95 = self._measure_p95()
        self._age += 1
        if self._age > PANES_PER_WINDOW and self.answers >= MIN_ANSWERS:
            self._move_baseline()

    def _measure_p95(self) -> float:
        above, slow = 0, max(self.answers * 0.05, MAX_OUTLIERS)
        for bucket in sorted(self._counts, reverse=True):
            above += self._counts[bucket]
            if above > slow:
                return _seconds(bucket)
        return 0.0

    def _move_baseline(self) -> None:
        """Move the baseline towards the window's p95 by a bounded step.

        So an hour of slow answers hardly moves it, and after half a day they are the new normal.
        """
        step = LEARNING_STEP if self.windows < LEARNING_WINDOWS else BASELINE_STEP
        step = 1 + step * min(1.0, self.answers / FULL_STEP_ANSWERS)
        before = self.baseline or self.p95
        self.baseline = min(max(self.p95, before / step), before * step)
        self.windows += 1
        self._age = 0

    def describe(self) -> str:
        waited = f"{self.scope} takes {self.p95:.2g} s to begin its answers (p95)"
        return f"{waited}, {self.ratio:.1f} times its baseline of {self.baseline:.2g} s"


class LatencyIndicator:
    """The time until a provider begins its answers, by model, against its own baseline."""

    def __init__(self, alarm: IndicatorAlarm) -> None:
        self._alarm = alarm
        self._models: RecentMap[tuple[str, ...], _Model] = RecentMap(_Model, MAX_MODELS, alarm.fall)

    def observe(self, provider: str, model: str, seconds: float) -> None:
        """Observe the time to first byte of one answer."""
        values = self._models[provider, model].values
        if len(values) < MAX_ANSWERS_PER_PANE:
            values.append(seconds)

    def close_pane(self) -> None:
        """Close a pane, and judge every model by its window."""
        worst = 0.0
        for one in self._models.all():
            one.close_pane()
            can_rise = one.is_known and one.p95 > MIN_SLOW_S
            self._alarm.judge(one, one.ratio, one.describe, can_rise=can_rise)
            if one.is_known:
                worst = max(worst, one.ratio)
        self._alarm.worst = worst


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
