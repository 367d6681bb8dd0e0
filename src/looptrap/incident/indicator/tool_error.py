"""ToolErrorIndicator: the share of a caller's tool calls that failed."""

from __future__ import annotations

from collections import deque

from looptrap.bounded import RecentMap
from looptrap.incident.indicator.alarm import IndicatorAlarm
from looptrap.incident.indicator.model import (
    PANES_PER_WINDOW,
    RECOVERY_RATIO,
    IndicatorScope,
    ThresholdCrossing,
)

MIN_TOOL_CALLS = 10
"""Fewer tool calls in the window never fire."""

MAX_CALLERS = 5_000
"""Callers that are tracked."""


class _Caller:
    __slots__ = ("_panes", "all_failed", "all_tools", "failed", "is_over", "key", "tools")

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.tools = self.failed = 0
        """In the open pane."""
        self.all_tools = self.all_failed = 0
        """In the window without the open pane."""
        self.is_over = False
        self._panes: deque[tuple[int, int]] = deque()

    @property
    def scope(self) -> IndicatorScope:
        return IndicatorScope(caller=self.key[0], project=self.key[1])

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


class ToolErrorIndicator:
    """Counts tool calls and failures by caller, over the window."""

    def __init__(self, alarm: IndicatorAlarm) -> None:
        self.worst = 0.0
        """The highest share of a caller with enough tool calls."""
        self._alarm = alarm
        self._callers: RecentMap[tuple[str, str], _Caller] = RecentMap(
            _Caller, MAX_CALLERS, self._recover
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
            self._judge(one)
            if one.all_tools >= MIN_TOOL_CALLS:
                worst = max(worst, one.share)
            elif not one.all_tools:
                quiet.append(one.key)
        self.worst = worst
        self._callers.forget(quiet)

    def _judge(self, one: _Caller) -> None:
        share, threshold = one.share, self._alarm.threshold
        if one.is_over:
            if share <= threshold * RECOVERY_RATIO:
                self._recover(one)
        elif share > threshold and one.all_tools >= MIN_TOOL_CALLS:
            one.is_over = True
            counted = f"{one.all_failed} of {one.all_tools}"
            text = f"{share:.0%} of the tool calls of {one.scope} failed ({counted})"
            self._alarm.rise(ThresholdCrossing(one.scope, share, text))

    def _recover(self, one: _Caller) -> None:
        if one.is_over:
            one.is_over = False
            self._alarm.fall(one.scope)
