"""Signals: ways of going in circles that show in the history inside one request.

repeat        the same calls, with the same results, again and again
turn_budget   more tool calls than a turn should need
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from looptrap.detect.signals.model import Signal
from looptrap.detect.signals.repeat import Repeat
from looptrap.detect.signals.turn_budget import turn_budget

SIGNALS: Mapping[str, Callable[[int, bool], Signal]] = {
    "repeat": Repeat,
    "turn_budget": lambda _rounds, _with_results: turn_budget,
}
"""Each is made from the rounds it may look at, and whether results are compared too."""

__all__ = ["SIGNALS", "Signal"]
