"""Signals: loop patterns in the history inside one request.

repeat            the same calls with the same results
cycle             a block of several rounds, repeated
same_error        the same failure in most of the latest rounds, whatever the calls
failing           one failure after the other
near_repeat       almost the same call, which still fails or returns nothing
mutating_repeat   the same call in a row, while its result merely grows or shifts
noisy_repeat      calls made before, with results that differ in a few figures at most
stagnation        mostly results that had come before
same_words        the same sentences beside the calls, whatever is called
unknown_tool      calls to tools that do not exist
monologue         the same text again, without a tool call
idle              turn after turn without a tool call, in the same words
turn_budget       more tool calls than a turn should need

Two patterns across requests:

compaction        the same calls after each compaction of the history, and nothing new
restart           runs that begin alike and end at the same point

And one pattern in the answer:

chant             an answer that repeats itself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from looptrap.detect.signals.across import Compaction, Restart
from looptrap.detect.signals.chant import Chant, Monologue
from looptrap.detect.signals.failing import Failing, SameError
from looptrap.detect.signals.idle import Idle
from looptrap.detect.signals.near_repeat import MutatingRepeat, NearRepeat
from looptrap.detect.signals.noisy_repeat import NoisyRepeat
from looptrap.detect.signals.repeat import Cycle, Repeat
from looptrap.detect.signals.same_words import SameWords
from looptrap.detect.signals.signal import AnswerSignal, HistorySignal, SignalOptions
from looptrap.detect.signals.stagnation import Stagnation, TurnBudget
from looptrap.detect.signals.unknown_tool import UnknownTool

SIGNALS: Mapping[str, Callable[[SignalOptions], HistorySignal]] = {
    "repeat": Repeat,
    "cycle": Cycle,
    "same_error": SameError,
    "failing": Failing,
    "near_repeat": NearRepeat,
    "mutating_repeat": MutatingRepeat,
    "noisy_repeat": NoisyRepeat,
    "stagnation": Stagnation,
    "same_words": SameWords,
    "unknown_tool": UnknownTool,
    "monologue": Monologue,
    "idle": Idle,
    "turn_budget": TurnBudget,
    "compaction": Compaction,
    "restart": Restart,
}
"""Signals in the history of a run, made with their options."""

ANSWERS: Mapping[str, Callable[[], AnswerSignal]] = {"chant": Chant}
"""Signals in an answer."""

ROUNDS: Mapping[str, int] = {
    "repeat": 12,
    "cycle": 40,
    "same_error": 8,
    "failing": 16,
    "near_repeat": 8,
    "mutating_repeat": 10,
    "noisy_repeat": 40,
    "stagnation": 22,
    "same_words": 24,
    "unknown_tool": 8,
    "monologue": 8,
    "idle": 12,
}
"""Latest rounds that each considers by default; a turn budget has no such bound."""

__all__ = ["ANSWERS", "ROUNDS", "SIGNALS", "AnswerSignal", "HistorySignal", "SignalOptions"]
