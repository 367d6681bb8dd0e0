"""Turns: one answer to a user, on one budget, however many agents work on it.

turn     `Turn`: steps, tools and money; the check for repeated tool calls
step     one step: a call with retries, or a question with a corrective prompt
budget   limits and usage of a turn; the marker of one that was given up
header   how a turn is passed to another process
"""

from looptrap.retry.turn.budget import Marker, TurnLimits, TurnUsage
from looptrap.retry.turn.header import BAGGAGE_HEADER, TURN_HEADER
from looptrap.retry.turn.turn import INTERRUPTION, Turn, current_turn

__all__ = [
    "BAGGAGE_HEADER",
    "INTERRUPTION",
    "TURN_HEADER",
    "Marker",
    "Turn",
    "TurnLimits",
    "TurnUsage",
    "current_turn",
]
