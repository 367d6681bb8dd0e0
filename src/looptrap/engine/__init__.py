"""The guard: judges calls by rules and counts.

plan(call, now)              which keys to count, and evidence in the history     pure
store.hit(plan.hits, now)    counts and cooldowns, synchronously or not
follow(plan, counts)         further hits that the counts call for: mostly none   pure
judge(plan, counts)          a Ticket with its Verdict                            pure
store.trip(ticket.trips)     only when a cooldown starts
hear(ticket, text)           evidence in the answer while it is relayed           pure
settle(ticket, outcome)      counts the outcome

guard.py has these methods; plan.py, judge.py and model.py their parts; counters.py the numbers
for /metrics.
"""

from looptrap.engine.counters import Counters
from looptrap.engine.guard import Guard
from looptrap.engine.model import Plan, Ticket

__all__ = ["Counters", "Guard", "Plan", "Ticket"]
