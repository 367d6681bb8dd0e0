"""Turns: one answer to a user, on one budget, however many agents work on it.

turn     `Turn`: tools and money; its steps, each a call with retries or a question with a
         corrective prompt; the check for repeated tool calls
budget   limits and usage of a turn; the marker of one that was given up; the headers that pass
         a turn to another process
"""

from looptrap.retry.turn.budget import (
    BAGGAGE_HEADER,
    TURN_HEADER,
    Marker,
    TurnLimits,
    TurnUsage,
)
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
