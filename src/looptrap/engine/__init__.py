"""The guard: the one place where calls, rules and counts meet.

plan(call, now)              which keys to count, and what the history shows      pure
store.hit(plan.hits, now)    counts and cooldowns, at once or later
follow(plan, counts)         what these make worth asking once more: mostly nothing    pure
judge(plan, counts)          a Ticket with its Verdict                            pure
store.trip(ticket.trips)     only when something tripped
hear(ticket, text)           what the answer shows while it passes                pure
settle(ticket, outcome)      what became of it
"""

from looptrap.engine.counters import Counters
from looptrap.engine.guard import Guard
from looptrap.engine.model import Plan, Ticket

__all__ = ["Counters", "Guard", "Plan", "Ticket"]
