"""Sessions: tool calls a turn, and tokens against others and against what it used before."""

from __future__ import annotations

from collections import deque

from looptrap.incident.indicator.alarm import IndicatorAlarm
from looptrap.incident.indicator.model import (
    PANES_PER_WINDOW,
    RECOVERY_RATIO,
    IndicatorScope,
    RecentMap,
    ThresholdCrossing,
)

PANES_PER_MINUTE = PANES_PER_WINDOW // 5
"""Panes whose tokens are compared: a minute, where a window has five."""

MIN_BURN_MINUTES = 10
"""Minutes with a call that must be over before others are compared with them, and that count.

No more than these: a history that grows is normal, however long it becomes.
"""

MIN_BURN_TOKENS = 20_000
"""Tokens a minute that nobody minds: below them nothing burns."""


class BurnRate:
    """The minutes of one session; those without a call do not count."""

    __slots__ = ("_before", "_mean", "_minutes", "began", "is_high", "tokens")

    def __init__(self) -> None:
        self.tokens = 0
        """In the minute that is open …"""
        self._before = 0
        """… and in the one before, from which nothing is learnt yet."""
        self.began = -1
        """The pane with which it began; -1 while there is none."""
        self.is_high = False
        self._mean = 0.0
        self._minutes = 0

    @property
    def mean(self) -> float:
        """Return the tokens of an earlier minute; 0 while too few are over."""
        return self._mean if self._minutes >= MIN_BURN_MINUTES else 0.0

    def ratio(self) -> float:
        """Return how many times the mean both this minute and the one before have used.

        One alone says little: agents work in bursts.
        """
        mean, tokens = self.mean, min(self.tokens, self._before)
        return tokens / mean if mean and tokens >= MIN_BURN_TOKENS else 0.0

    def is_over(self, pane: int) -> bool:
        """Say whether the open minute is one with this pane, so that all of it is known."""
        return pane >= self.began + PANES_PER_MINUTE - 1

    def add(self, tokens: int, pane: int, most: float) -> None:
        """Take what a call used in a pane."""
        if self.began < 0:
            self.began = pane
        elif pane >= self.began + PANES_PER_MINUTE:
            self._close(most)
            self.began = pane
        self.tokens += tokens

    def _close(self, most: float) -> None:
        """Learn from a minute, as from one of at most `most` times the mean.

        So one that ran away does not hide the next, while what goes on is soon normal.
        """
        mean, tokens = self.mean, float(self._before)
        self._before, self.tokens = self.tokens, 0
        if tokens:
            self._minutes = min(self._minutes + 1, MIN_BURN_MINUTES)
            self._mean += (min(tokens, most * mean or tokens) - self._mean) / self._minutes


MIN_ENDED_SESSIONS = 10
"""Sessions that must be over before others are compared with their average."""

LEARNING_PANES = 6 * PANES_PER_WINDOW
"""Panes that must be over, too: the first sessions to end are the short ones."""

AVERAGED_SESSIONS = 100
"""The latest sessions of a group, whose average counts."""

MAX_SESSIONS = 20_000
"""Sessions that are followed at a time."""

MAX_GROUPS = 1_000


class _Group:
    """Sessions of one project; of one caller where there is none."""

    __slots__ = ("_total", "_used", "began", "scope")

    def __init__(self, scope: IndicatorScope, began: int) -> None:
        self.scope = scope
        self.began = began
        """The pane in which it was first seen."""
        self._used: deque[float] = deque()
        self._total = 0.0

    def average(self, pane: int) -> float:
        """Return the tokens of an average session; 0 while too little is known."""
        is_known = len(self._used) >= MIN_ENDED_SESSIONS and pane >= self.began + LEARNING_PANES
        return self._total / len(self._used) if is_known else 0.0

    def add(self, tokens: float, most: float, pane: int) -> None:
        """Count a session that is over, as one of at most `most` times the average.

        So one that ran away does not hide the next, while what all come to use is soon normal.
        """
        average = self.average(pane)
        tokens = min(tokens, most * average) if average else tokens
        self._used.append(tokens)
        self._total += tokens
        if len(self._used) > AVERAGED_SESSIONS:
            self._total -= self._used.popleft()


class _Session:
    __slots__ = (
        "began", "burn", "calls", "group", "has_many_calls", "has_many_tokens", "key", "pane",
        "tokens",
    )  # fmt: skip

    def __init__(self, key: tuple[str, str, str], group: _Group, began: int) -> None:
        self.key = key
        self.group = group
        self.began = began
        """The pane in which it was first seen."""
        self.pane = -1
        """The latest in which it was seen."""
        self.calls = -1
        """The most tool calls a turn in that pane."""
        self.tokens = 0
        self.burn = BurnRate()
        self.has_many_calls = self.has_many_tokens = False


class SessionIndicators:
    """Follows sessions until they have been quiet for a window; any alarm may be missing."""

    def __init__(
        self,
        calls: IndicatorAlarm | None,
        tokens: IndicatorAlarm | None,
        burn: IndicatorAlarm | None,
    ) -> None:
        self._calls = calls
        self._tokens = tokens
        self._burn = burn
        self._groups: RecentMap[IndicatorScope, _Group] = RecentMap(
            lambda scope: _Group(scope, self._pane), MAX_GROUPS
        )
        self._sessions: RecentMap[tuple[str, str, str], _Session] = RecentMap(
            self._begin, MAX_SESSIONS, self._leave
        )
        self._pane = 0
        self._peaks: deque[tuple[float, float, float]] = deque(maxlen=PANES_PER_WINDOW)

    @property
    def worst_calls(self) -> float:
        """The most tool calls a turn in the window."""
        return max((calls for calls, _, _ in self._peaks), default=0.0)

    @property
    def worst_tokens(self) -> float:
        """The most tokens of a session in the window, in times of the average."""
        return max((tokens for _, tokens, _ in self._peaks), default=0.0)

    @property
    def worst_burn(self) -> float:
        """The most tokens a minute in the window, in times of what the session used before."""
        return max((burn for _, _, burn in self._peaks), default=0.0)

    def take(self, caller: str, project: str, name: str, tokens: int, calls: int) -> None:
        """Take what one call adds to its session."""
        one = self._sessions[caller, project, name]
        if one.pane != self._pane:
            one.pane = self._pane
            one.calls = calls
        elif calls > one.calls:
            one.calls = calls
        one.tokens += tokens
        if self._burn is not None:
            one.burn.add(tokens, self._pane, self._burn.threshold)

    def turn(self) -> None:
        """Close a pane: judge the sessions seen in it, and end those quiet for a window."""
        calls = tokens = burn = 0.0
        over = []
        for one in self._sessions.all():
            if one.pane == self._pane:
                calls = max(calls, self._judge_calls(one))
                tokens = max(tokens, self._judge_tokens(one))
                burn = max(burn, self._judge_burn(one))
            elif one.pane <= self._pane - PANES_PER_WINDOW:
                over.append(one.key)
                self._end(one)
        self._sessions.forget(over)
        self._peaks.append((calls, tokens, burn))
        self._pane += 1

    def _begin(self, key: tuple[str, str, str]) -> _Session:
        caller, project, _ = key
        scope = IndicatorScope(project=project) if project else IndicatorScope(caller=caller)
        return _Session(key, self._groups[scope], self._pane)

    def _end(self, one: _Session) -> None:
        # What was seen at the very beginning may have begun before.
        if one.tokens and self._tokens is not None and one.began >= PANES_PER_WINDOW:
            one.group.add(one.tokens, self._tokens.threshold, self._pane)
        self._leave(one)

    def _leave(self, one: _Session) -> None:
        if one.has_many_calls and self._calls is not None:
            self._calls.fall(one.group.scope)
        if one.has_many_tokens and self._tokens is not None:
            self._tokens.fall(one.group.scope)
        if one.burn.is_high and self._burn is not None:
            self._burn.fall(one.group.scope)
        one.has_many_calls = one.has_many_tokens = one.burn.is_high = False

    def _judge_calls(self, one: _Session) -> float:
        alarm, calls = self._calls, one.calls
        if alarm is None:
            return 0.0
        if one.has_many_calls:
            if 0 <= calls <= alarm.threshold * RECOVERY_RATIO:
                one.has_many_calls = False
                alarm.fall(one.group.scope)
        elif calls > alarm.threshold:
            one.has_many_calls = True
            name = one.key[2]
            words = f"Session {name} of {one.group.scope} made {calls} tool calls"
            since = "since a person last spoke"
            alarm.rise(ThresholdCrossing(one.group.scope, calls, f"{words} {since}", name))
        return float(max(calls, 0))

    def _judge_tokens(self, one: _Session) -> float:
        alarm, average = self._tokens, one.group.average(self._pane)
        if alarm is None or not average:
            return 0.0
        ratio = one.tokens / average
        if ratio > alarm.threshold and not one.has_many_tokens:
            one.has_many_tokens = True
            name = one.key[2]
            words = f"Session {name} of {one.group.scope} used {one.tokens:,} tokens"
            times = f"{ratio:.1f} times the average of {average:,.0f}"
            alarm.rise(ThresholdCrossing(one.group.scope, ratio, f"{words}, {times}", name))
        return ratio

    def _judge_burn(self, one: _Session) -> float:
        alarm, burn = self._burn, one.burn
        if alarm is None:
            return 0.0
        ratio = burn.ratio()
        if burn.is_high:
            if burn.is_over(self._pane) and ratio <= alarm.threshold * RECOVERY_RATIO:
                burn.is_high = False
                alarm.fall(one.group.scope)
        elif ratio > alarm.threshold:
            burn.is_high = True
            name = one.key[2]
            words = f"Session {name} of {one.group.scope} used {burn.tokens:,} tokens in a minute"
            times = f"{ratio:.1f} times its mean of {burn.mean:,.0f}"
            alarm.rise(ThresholdCrossing(one.group.scope, ratio, f"{words}, {times}", name))
        return ratio
