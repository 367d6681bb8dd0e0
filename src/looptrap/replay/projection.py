"""An endless loop: one call over and over, at a steady rate; how many of them would pass?"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.policy.policy import Policy
from looptrap.replay.judge import ToolRules, as_enforced, replay_guard

MAX_CALLS = 10_000
"""So many are judged, which takes about a second."""

START_TIME = 1_800_000_000.0
"""When it begins: any time does."""

_PATH = "/v1/chat/completions"


@dataclass(slots=True)
class LoopProjection:
    """Which calls of a loop passed, as far as it was followed."""

    seconds: float = 0.0
    """How long it was followed."""
    judged: int = 0
    allowed_at: list[float] = field(default_factory=list)
    """When the calls that passed were sent, in seconds since the first …"""
    resumed_at: list[float] = field(default_factory=list)
    """… and those of them that came next after a refusal."""
    rule: str = ""
    """The rule that refused first, if one did …"""
    first: int | None = None
    """… and at which call, the first being 1."""

    def calls_in(self, seconds: float) -> int:
        """Return how many calls pass in that time; beyond what was followed, as many as lately."""
        within = self._between(0.0, seconds)
        if seconds <= self.seconds:
            return within
        # From one resumption to another, a loop has come round; without any, it runs evenly.
        is_cycle = len(self.resumed_at) > 1
        start = self.resumed_at[0] if is_cycle else self.seconds / 2
        end = self.resumed_at[-1] if is_cycle else self.seconds
        rate = self._between(start, end) / (end - start)
        return within + round(rate * (seconds - self.seconds))

    def _between(self, start: float, end: float) -> int:
        return bisect_left(self.allowed_at, end) - bisect_left(self.allowed_at, start)


def project_loop(
    policies: Iterable[Policy],
    *,
    model: str,
    rps: float,
    seconds: float,
    tools: ToolRules | None = None,
) -> LoopProjection:
    """Judge the same chat call again and again, for that long or `MAX_CALLS` times.

    Whoever sends it takes no refusal for an answer, but waits where it is slowed down.
    """
    guard = replay_guard(as_enforced(policies), tools)
    sent = json.dumps({"model": model, "messages": [{"role": "user", "content": "Go on."}]})
    body, loop, delayed, was_refused = sent.encode(), LoopProjection(), 0.0, False
    while loop.judged < MAX_CALLS and loop.seconds < seconds:
        request = Request("POST", _PATH, "", [], body, "caller", session="session")
        verdict = guard.admit(read(request), START_TIME + loop.seconds).verdict
        loop.judged += 1
        is_refused = verdict.action.refuses
        if not is_refused:
            loop.allowed_at.append(loop.seconds)
            if was_refused:
                loop.resumed_at.append(loop.seconds)
        elif loop.first is None:
            loop.rule, loop.first = verdict.rule, loop.judged
        was_refused = is_refused
        delayed += verdict.delay
        loop.seconds = loop.judged / rps + delayed
    return loop
