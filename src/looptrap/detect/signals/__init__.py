"""Signals: ways of going in circles that show in the history inside one request.

repeat            the same calls, with the same results, again and again
cycle             a block of several rounds that comes again and again
same_error        the same failure in most of the latest rounds, whatever was asked
failing           one failure after the other
near_repeat       almost the same call, which still fails or brings nothing
mutating_repeat   the same call in a row, while its result merely grows or shifts
stagnation        mostly results that had come before
unknown_tool      calls to tools that are not offered
monologue         the same said again, with nothing done
turn_budget       more tool calls than a turn should need
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from looptrap.detect.signals.cycle import Cycle
from looptrap.detect.signals.failing import Failing
from looptrap.detect.signals.model import Signal
from looptrap.detect.signals.monologue import Monologue
from looptrap.detect.signals.mutating_repeat import MutatingRepeat
from looptrap.detect.signals.near_repeat import NearRepeat
from looptrap.detect.signals.repeat import Repeat
from looptrap.detect.signals.same_error import SameError
from looptrap.detect.signals.stagnation import Stagnation
from looptrap.detect.signals.turn_budget import turn_budget
from looptrap.detect.signals.unknown_tool import UnknownTool

SIGNALS: Mapping[str, Callable[[int, bool], Signal]] = {
    "repeat": Repeat,
    "cycle": Cycle,
    "same_error": SameError,
    "failing": Failing,
    "near_repeat": NearRepeat,
    "mutating_repeat": MutatingRepeat,
    "stagnation": Stagnation,
    "unknown_tool": UnknownTool,
    "monologue": Monologue,
    "turn_budget": lambda _rounds, _with_results: turn_budget,
}
"""Each is made from the rounds it may look at, and whether results are compared too."""

ROUNDS: Mapping[str, int] = {
    "repeat": 12,
    "cycle": 24,
    "same_error": 8,
    "failing": 16,
    "near_repeat": 8,
    "mutating_repeat": 10,
    "stagnation": 20,
    "unknown_tool": 8,
    "monologue": 8,
}
"""How many of the latest rounds each looks at, unless a rule says otherwise; a turn's budget has
no such bound."""

__all__ = ["ROUNDS", "SIGNALS", "Signal"]
