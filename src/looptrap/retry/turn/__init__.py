"""Turns: one answer to a user, on one budget, however many agents work on it.

turn         what an agent writes: steps, tools, money
run          a turn under way
step         one step of it
account      what it may take, and has taken
header       how it goes to another process
marker       what is left of one that was given up
corrective   the prompt that says what was wrong with an answer
loop_check   the same tool call again and again
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
