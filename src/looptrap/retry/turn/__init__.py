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

from looptrap.retry.turn.account import Limits
from looptrap.retry.turn.header import BAGGAGE, TURN
from looptrap.retry.turn.loop_check import INTERRUPTION
from looptrap.retry.turn.marker import Marker, Spent
from looptrap.retry.turn.turn import Turn, current_turn

__all__ = ["BAGGAGE", "INTERRUPTION", "TURN", "Limits", "Marker", "Spent", "Turn", "current_turn"]
