"""Session indicators: tool calls a turn, tokens against other sessions, burn rate."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial

from looptrap.bounded import RecentMap
from looptrap.incident.indicator.alarm import (
    PANES_PER_WINDOW,
    IndicatorAlarm,
    IndicatorScope,
    Subject,
)

PANES_PER_MINUTE = PANES_PER_WINDOW // 5
"""Panes of a minute, with the default window of five minutes."""

MIN_BURN_MINUTES = 10
"""Minutes with a call in the rolling mean; before that many, nothing is compared.

No more than these: a conversation that grows is normal, however long it becomes.
"""

MIN_BURN_TOKENS = 20_000
"""Below this many tokens a minute the burn rate never fires."""


@dataclass(slots=True, eq=False)
class BurnRate:
    """Tokens a minute of one session; minutes without a call do not count."""

    tokens: int = 0
    """Tokens of the open minute …"""
    _before: int = 0
    """… and of the one before, which is not in the mean yet."""
    began: int = -1
    """The first pane of the open minute; -1 while there is none."""
    _mean: float = 0.0
    _minutes: int = 0

    @property
    def mean(self) -> float:
        """The mean tokens of earlier minutes; 0 while there are too few."""
        return self._mean if self._minutes >= MIN_BURN_MINUTES else 0.0

    def ratio(self) -> float:
        """Return the multiple of the mean that both this minute and the one before reached.

        One alone says little: agents work in bursts.
        """
        mean, tokens = self.mean, min(self.tokens, self._before)
        return tokens / mean if mean and tokens >= MIN_BURN_TOKENS else 0.0

    def is_over(self, pane: int) -> bool:
        """Return whether the open minute ends with this pane."""
        return pane >= self.began + PANES_PER_MINUTE - 1

    def add(self, tokens: int, pane: int, max_ratio: float) -> None:
        """Add the tokens of a call in a pane."""
        if self.began < 0:
            self.began = pane
        elif pane >= self.began + PANES_PER_MINUTE:
            self._close(max_ratio)
            self.began = pane
        self.tokens += tokens

    def _close(self, max_ratio: float) -> None:
        """Add a minute to the mean, capped at `max_ratio` times the mean.

        So one outlier does not hide the next, while a lasting level soon becomes normal.
        """
        mean, tokens = self.mean, float(self._before)
        self._before, self.tokens = self.tokens, 0
        if tokens:
            self._minutes = min(self._minutes + 1, MIN_BURN_MINUTES)
            capped = min(tokens, max_ratio * mean) if mean else tokens
            self._mean += (capped - self._mean) / self._minutes


MIN_ENDED_SESSIONS = 10
"""Ended sessions needed before others are compared with their average."""

LEARNING_PANES = 6 * PANES_PER_WINDOW
"""Panes needed as well: the first sessions to end are the short ones."""

AVERAGED_SESSIONS = 100
"""Latest ended sessions of a group in the average."""

MAX_SESSIONS = 20_000
"""Sessions tracked at a time."""

MAX_GROUPS = 1_000


class _Group:
    """Sessions of one project, or of one caller without a project."""

    __slots__ = ("_total", "_used", "began", "scope")

    def __init__(self, scope: IndicatorScope, began: int) -> None:
        self.scope = scope
        self.began = began
        """The pane in which it was first seen."""
        self._used: deque[float] = deque()
        self._total = 0.0

    def average(self, pane: int) -> float:
        """Return the average tokens of a session; 0 while too little is known."""
        is_known = len(self._used) >= MIN_ENDED_SESSIONS and pane >= self.began + LEARNING_PANES
        return self._total / len(self._used) if is_known else 0.0

    def add(self, tokens: float, max_ratio: float, pane: int) -> None:
        """Add an ended session to the average, capped at `max_ratio` times the average.

        So one outlier does not hide the next, while a lasting level soon becomes normal.
        """
        average = self.average(pane)
        tokens = min(tokens, max_ratio * average) if average else tokens
        self._used.append(tokens)
        self._total += tokens
        if len(self._used) > AVERAGED_SESSIONS:
            self._total -= self._used.popleft()


class _Session(Subject):
    __slots__ = ("began", "burn", "calls", "group", "pane", "tokens")

    def __init__(self, key: tuple[str, ...], group: _Group, began: int) -> None:
        super().__init__(key, group.scope, key[2])
        self.group = group
        self.began = began
        """The pane in which it was first seen."""
        self.pane = -1
        """The latest pane in which it was seen."""
        self.calls = -1
        """The most tool calls a turn in that pane."""
        self.tokens = 0
        self.burn = BurnRate()

    def describe_calls(self) -> str:
        return f"{self._name} made {self.calls} tool calls since a person last spoke"

    def describe_tokens(self, average: float) -> str:
        times = f"{self.tokens / average:.1f} times the average of {average:,.0f}"
        return f"{self._name} used {self.tokens:,} tokens, {times}"

    def describe_burn(self) -> str:
        times = f"{self.burn.ratio():.1f} times its mean of {self.burn.mean:,.0f}"
        return f"{self._name} used {self.burn.tokens:,} tokens in a minute, {times}"

    @property
    def _name(self) -> str:
        return f"Session {self.session} of {self.scope}"


class SessionIndicators:
    """Tracks sessions until they have been quiet for a window."""

    def __init__(self, calls: IndicatorAlarm, tokens: IndicatorAlarm, burn: IndicatorAlarm) -> None:
        self._alarms = (calls, tokens, burn)
        self._calls, self._tokens, self._burn = self._alarms
        self._groups: RecentMap[IndicatorScope, _Group] = RecentMap(
            lambda scope: _Group(scope, self._pane), MAX_GROUPS
        )
        self._sessions: RecentMap[tuple[str, ...], _Session] = RecentMap(
            self._begin, MAX_SESSIONS, self._recover
        )
        self._pane = 0
        self._peaks: deque[tuple[float, ...]] = deque(maxlen=PANES_PER_WINDOW)

    def observe(self, caller: str, project: str, name: str, tokens: int, calls: int) -> None:
        """Add one call to its session."""
        one = self._sessions[caller, project, name]
        if one.pane != self._pane:
            one.pane = self._pane
            one.calls = calls
        elif calls > one.calls:
            one.calls = calls
        one.tokens += tokens
        one.burn.add(tokens, self._pane, self._burn.threshold)

    def close_pane(self) -> None:
        """Close a pane: judge the sessions seen in it, and end those quiet for a window."""
        peaks: tuple[float, ...] = (0.0, 0.0, 0.0)
        ended = []
        for one in self._sessions.all():
            if one.pane == self._pane:
                peaks = tuple(map(max, peaks, self._judge(one)))
            elif one.pane <= self._pane - PANES_PER_WINDOW:
                ended.append(one.key)
                self._end(one)
        self._sessions.forget(ended)
        self._peaks.append(peaks)
        for alarm, values in zip(self._alarms, zip(*self._peaks, strict=True), strict=True):
            alarm.worst = max(values)
        self._pane += 1

    def _begin(self, key: tuple[str, ...]) -> _Session:
        caller, project, _ = key
        scope = IndicatorScope(project=project) if project else IndicatorScope(caller=caller)
        return _Session(key, self._groups[scope], self._pane)

    def _end(self, one: _Session) -> None:
        # A session seen in the first window may have begun before it.
        if one.tokens and one.began >= PANES_PER_WINDOW:
            one.group.add(one.tokens, self._tokens.threshold, self._pane)
        self._recover(one)

    def _recover(self, one: _Session) -> None:
        for alarm in self._alarms:
            alarm.fall(one)

    def _judge(self, one: _Session) -> tuple[float, float, float]:
        """Compare a session with each threshold; return its values."""
        average = one.group.average(self._pane)
        tokens = one.tokens / average if average else 0.0
        burn = one.burn.ratio()
        has_ended = one.burn.is_over(self._pane)
        self._calls.judge(one, one.calls, one.describe_calls, can_fall=one.calls >= 0)
        self._tokens.judge(one, tokens, partial(one.describe_tokens, average), can_fall=False)
        self._burn.judge(one, burn, one.describe_burn, can_fall=has_ended)
        return float(max(one.calls, 0)), tokens, burn
