"""Detectors of the comparison: Looptrap's presets, and rules as other projects document them.

The rules are written anew from what the projects say of them; the table in `README.md` names the
documents. Each rule has one agent's turns (`bench.loops.trail`), and says what becomes of the next
call. Parts that ask a model are left out.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from time import process_time
from typing import Protocol

from bench.loops.detector import Detector, MadeDetector
from bench.loops.scenario import GuardAsker, Step, Verdict
from bench.loops.trail import Trail, Turn, Use
from looptrap import Guard

PRESETS = ("default", "aisg", "fairvisor", "tcc", "zelyx")


class Rule(Protocol):
    """A detector inside one agent."""

    def judge(self, turns: Sequence[Turn]) -> Verdict:
        """Return what becomes of the next call, given the turns since the last one."""
        ...


@dataclass(slots=True)
class RuleAsker:
    """Asks one rule for each agent of a scenario."""

    make: Callable[[], Rule]
    reason: str = ""
    _trail: Trail = field(default_factory=Trail)
    _rules: dict[int, Rule] = field(default_factory=dict)
    _spent: float = 0.0

    def __call__(self, step: Step) -> Verdict:
        """Return what the agent's rule says of its new turns."""
        number, turns = self._trail.follow(step)
        if number not in self._rules:
            self._rules[number] = self.make()
        rule = self._rules[number]
        begun = process_time()
        verdict = rule.judge(turns)
        self._spent += process_time() - begun
        return verdict

    def answered(self, step: Step, at: float) -> None:
        """Note an answer."""
        self._trail.answered(step, at)

    def clock(self) -> float:
        """Return the CPU seconds of the rules; an agent need not read its own requests."""
        return self._spent


def _uses(turns: Sequence[Turn]) -> list[Use]:
    return [use for turn in turns for use in turn.uses]


# simple rules


@dataclass(slots=True)
class EqualCalls:
    """Refuses after so many equal tool calls in a row."""

    times: int
    _last: tuple[str, str] | None = None
    _streak: int = 0

    def judge(self, turns: Sequence[Turn]) -> Verdict:
        """Count equal calls in a row."""
        return "refuse" if self.add(_uses(turns)) else "allow"

    def add(self, uses: Iterable[Use]) -> bool:
        """Count calls; return whether there were enough of one."""
        is_enough = False
        for use in uses:
            self._streak = self._streak + 1 if use.key == self._last else 1
            self._last = use.key
            is_enough = is_enough or self._streak >= self.times
        return is_enough

    def reset(self) -> None:
        """Forget the calls so far."""
        self._last, self._streak = None, 0


@dataclass(slots=True)
class Window:
    """Refuses once a call is among the last so many for the Nth time."""

    times: int = 3
    size: int = 10
    _recent: deque[tuple[str, str]] = field(default_factory=deque)

    def judge(self, turns: Sequence[Turn]) -> Verdict:
        """Count equal calls among the last ones."""
        is_full = False
        for use in _uses(turns):
            self._recent.append(use.key)
            if len(self._recent) > self.size:
                self._recent.popleft()
            is_full = is_full or self._recent.count(use.key) >= self.times
        return "refuse" if is_full else "allow"


@dataclass(slots=True)
class MaxCalls:
    """Refuses all model calls of a session after so many."""

    most: int
    _calls: int = 0

    def judge(self, turns: Sequence[Turn]) -> Verdict:  # noqa: ARG002
        """Count the calls."""
        self._calls += 1
        return "refuse" if self._calls > self.most else "allow"


# OpenHands


@dataclass(slots=True)
class OpenHands:
    """The five scenarios of OpenHands' StuckDetector, over what came since the user's last message.

    An action is equal if its thought, tool and arguments are. Errors of the context window do not
    occur here.
    """

    _actions: list[tuple[str, Use]] = field(default_factory=list)
    _messages: int = 0

    def judge(self, turns: Sequence[Turn]) -> Verdict:
        """Look for each scenario after each turn."""
        is_stuck = False
        for turn in turns:
            self._actions += [(turn.text, use) for use in turn.uses]
            self._messages = 0 if turn.uses else self._messages + 1
            is_stuck = is_stuck or self._is_stuck()
            if turn.heard:
                self._actions, self._messages = [], 0
        return "refuse" if is_stuck else "allow"

    def _is_stuck(self) -> bool:
        return (
            self._repeats(4)
            or self._fails(3)
            or self._messages >= 3  # a monologue
            or self._alternates(6)
        )

    def _repeats(self, times: int) -> bool:
        last = self._actions[-times:]
        return len(last) == times and len(set(last)) == 1

    def _fails(self, times: int) -> bool:
        last = self._actions[-times:]
        equal = {(thought, use.key) for thought, use in last}
        return len(last) == times and len(equal) == 1 and all(use.is_error for _, use in last)

    def _alternates(self, steps: int) -> bool:
        last = self._actions[-steps:]
        return len(last) == steps and len(set(last[::2])) == 1 and len(set(last[1::2])) == 1


# Gemini CLI and Qwen Code

CHUNK_CHARS = 50
MARKUP = re.compile(r"```|^\s*(\||[-+|]{3}|[*+-]\s|\d+\.\s|#+\s|>\s)", re.MULTILINE)
"""What makes a text one that is not looked at: code, tables, lists, headings, quotes."""


@dataclass(slots=True)
class Chant:
    """Finds a text that repeats itself: equal chunks of 50 characters, close to each other."""

    times: int = 10
    max_distance: int = 5 * CHUNK_CHARS
    max_chars: int = 5000
    has_few_periods: bool = True
    """Whether also the text between the chunks must repeat itself."""
    _text: str = ""

    def add(self, text: str) -> bool:
        """Add a text without a tool call after it; return whether all together is a chant."""
        if MARKUP.search(text):
            self._text = ""
            return False
        self._text = (self._text + text)[-self.max_chars :]
        places: dict[str, list[int]] = {}
        for place in range(len(self._text) - CHUNK_CHARS + 1):
            seen = places.setdefault(self._text[place : place + CHUNK_CHARS], [])
            seen.append(place)
            if len(seen) >= self.times and self._is_close(seen[-self.times :]):
                return True
        return False

    def _is_close(self, places: Sequence[int]) -> bool:
        if (places[-1] - places[0]) / (self.times - 1) > self.max_distance:
            return False
        periods = {self._text[one:other] for one, other in pairwise(places)}
        return not self.has_few_periods or len(periods) <= self.times // 2

    def reset(self) -> None:
        """Forget the text so far."""
        self._text = ""


@dataclass(slots=True)
class GeminiCli:
    """Gemini CLI's LoopDetectionService: it warns its model at first, and stops at the second time.

    A new prompt of the user resets it.
    """

    _equal: EqualCalls = field(default_factory=lambda: EqualCalls(5))
    _chant: Chant = field(default_factory=Chant)
    _found: int = 0

    def judge(self, turns: Sequence[Turn]) -> Verdict:
        """Look for equal calls in a row, and for chants."""
        before = self._found
        for turn in turns:
            self._found += self._chant.add(turn.text)
            if turn.uses:
                self._chant.reset()
            self._found += self._equal.add(turn.uses)
            found = self._found
            if turn.heard:
                self._equal.reset()
                self._chant.reset()
                self._found = 0
            if found > max(before, 1):
                return "refuse"
        return "warn" if self._found > before else "allow"


@dataclass(slots=True)
class QwenCode:
    """Qwen Code's LoopDetectionService: guards that are always on, and heuristics on demand."""

    has_heuristics: bool = False
    _equal: EqualCalls = field(default_factory=lambda: EqualCalls(5))
    _chant: Chant = field(default_factory=lambda: Chant(10, 75, 1000, False))
    _keys: list[tuple[str, str]] = field(default_factory=list)

    def judge(self, turns: Sequence[Turn]) -> Verdict:
        """Look for loops since the user's last prompt."""
        is_stuck = False
        for turn in turns:
            is_stuck = is_stuck or (self.has_heuristics and self._chant.add(turn.text))
            for use in turn.uses:
                self._chant.reset()
                self._keys.append(use.key)
                is_stuck = self._equal.add([use]) or is_stuck or self._is_over_cap()
                is_stuck = is_stuck or (self.has_heuristics and self._is_heuristic_loop())
            if turn.heard:
                self._equal.reset()
                self._chant.reset()
                self._keys = []
        return "refuse" if is_stuck else "allow"

    def _is_over_cap(self) -> bool:
        """Return whether there are over 100 calls, and one of them six times; or over 1000."""
        count = len(self._keys)
        return count > 1000 or (count > 100 and max(Counter(self._keys).values()) >= 6)

    def _is_heuristic_loop(self) -> bool:
        keys, tools = self._keys, [tool for tool, _ in self._keys]
        last = keys[-6:]
        alternates = len(set(last)) == 2 and len(set(last[::2])) == 1 and len(set(last[1::2])) == 1
        reads = sum(map(_is_read, tools[-15:])) >= 8 and not all(map(_is_read, tools))
        stagnates = len(tools) >= 8 and len(set(islice(reversed(tools), 8))) == 1
        return keys.count(keys[-1]) >= 6 or (len(last) == 6 and alternates) or reads or stagnates


def _is_read(tool: str) -> bool:
    return tool.startswith(("read_", "list_")) or tool == "zoom_image"


# all of them


def _preset(name: str) -> GuardAsker:
    return GuardAsker(Guard.from_preset(name, secret=b"bench"))


RULES: dict[str, Callable[[], Rule]] = {
    "3 equal calls in a row": partial(EqualCalls, 3),
    "5 equal calls in a row": partial(EqualCalls, 5),
    "3 equal of the last 10": Window,
    "OpenHands": OpenHands,
    "Gemini CLI": GeminiCli,
    "Qwen Code": QwenCode,
    "Qwen Code, heuristics on": partial(QwenCode, has_heuristics=True),
    "LiteLLM, 25 calls a session": partial(MaxCalls, 25),
}


def presets() -> list[Detector]:
    """Return Looptrap's presets; all but the first have the rules of other systems."""
    named = {name: "Looptrap" if name == "default" else f"preset {name}" for name in PRESETS}
    return [MadeDetector(title, partial(_preset, name)) for name, title in named.items()]


def rules() -> list[Detector]:
    """Return the rules of other projects."""
    return [MadeDetector(name, partial(RuleAsker, make)) for name, make in RULES.items()]
