"""Latency: the p95 of the time to first byte against its own baseline."""

from __future__ import annotations

from collections import Counter, deque
from math import exp, log

from looptrap.bounded import RecentMap
from looptrap.incident.indicator.alarm import IndicatorAlarm
from looptrap.incident.indicator.model import (
    PANES_PER_WINDOW,
    RECOVERY_RATIO,
    IndicatorScope,
    ThresholdCrossing,
)

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


class _Model:
    """The answers of one model of one provider."""

    __slots__ = (
        "_age", "_counts", "_panes", "answers", "baseline", "is_over", "p95", "scope", "values",
        "windows",
    )  # fmt: skip

    def __init__(self, key: tuple[str, str]) -> None:
        self.scope = IndicatorScope(provider=key[0], model=key[1])
        self.values: list[float] = []
        """Seconds of answers in the open pane."""
        self.answers = 0
        self.p95 = 0.0
        """Of the window without the open pane."""
        self.baseline = 0.0
        self.windows = 0
        """Windows that moved the baseline."""
        self.is_over = False
        self._counts = [0] * BUCKET_COUNT
        """Answers of the window by bucket."""
        self._panes: deque[Counter[int]] = deque()
        self._age = 0  # in panes, since the baseline was moved

    @property
    def ratio(self) -> float:
        """The p95 as a multiple of the baseline; 0 while too little is known."""
        is_known = self.windows >= LEARNING_WINDOWS and self.answers >= MIN_ANSWERS
        return self.p95 / self.baseline if is_known else 0.0

    def close_pane(self) -> None:
        """Add the open pane to the window, and drop the oldest."""
        new = Counter(map(_bucket, self.values))
        self.values = []
        self._panes.append(new)
        old = self._panes.popleft() if len(self._panes) > PANES_PER_WINDOW else Counter[int]()
        for bucket, number in new.items():
            self._counts[bucket] += number
        for bucket, number in old.items():
            self._counts[bucket] -= number
        self.answers += new.total() - old.total()
        if new or old:
            self.p95 = self._measure_p95()
        self._age += 1
        if self._age > PANES_PER_WINDOW and self.answers >= MIN_ANSWERS:
            self._move_baseline()

    def _measure_p95(self) -> float:
        above, slow = 0, max(self.answers * 0.05, MAX_OUTLIERS)
        for bucket in range(BUCKET_COUNT - 1, -1, -1):
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


class LatencyIndicator:
    """Measures how long providers take to begin their answers, by model."""

    def __init__(self, alarm: IndicatorAlarm) -> None:
        self.worst = 0.0
        """The highest p95 as a multiple of its baseline."""
        self._alarm = alarm
        self._models: RecentMap[tuple[str, str], _Model] = RecentMap(
            _Model, MAX_MODELS, self._recover
        )

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
            self._judge(one)
            worst = max(worst, one.ratio)
        self.worst = worst

    def _judge(self, one: _Model) -> None:
        threshold = self._alarm.threshold
        if one.is_over:
            if one.p95 <= threshold * RECOVERY_RATIO * one.baseline:
                self._recover(one)
        elif one.ratio > threshold and one.p95 > MIN_SLOW_S:
            one.is_over = True
            self._alarm.rise(ThresholdCrossing(one.scope, one.ratio, _describe(one)))

    def _recover(self, one: _Model) -> None:
        if one.is_over:
            one.is_over = False
            self._alarm.fall(one.scope)


def _describe(one: _Model) -> str:
    waited = f"{one.scope} takes {one.p95:.2g} s to begin its answers (p95)"
    return f"{waited}, {one.ratio:.1f} times its baseline of {one.baseline:.2g} s"
