"""Judges calls by rules and counts.

policy_engine   PolicyEngine: plans, judges and settles calls, without clock or store
plan, judge     its two halves: what to count and what the history shows; what that means
model           Plan and Ticket: what the engine returns
run_memory      RunMemory: the keys under which a store remembers runs
run_fitting     RunFitting: how a request fits to its run; run_search: which run that is, where
                no link leads there; run_recorder: the records of its rounds
transaction     Transaction: one call from its judgement to its outcome, without I/O
guard           Guard: an engine with a store of its own, for use inside a process
counters        the numbers for /metrics
"""

from looptrap.engine.counters import Counters
from looptrap.engine.guard import Guard
from looptrap.engine.model import Plan, Ticket
from looptrap.engine.policy_engine import PolicyEngine
from looptrap.engine.transaction import RequestIds, Transaction

__all__ = ["Counters", "Guard", "Plan", "PolicyEngine", "RequestIds", "Ticket", "Transaction"]
