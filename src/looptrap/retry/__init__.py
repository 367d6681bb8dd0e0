"""Calls that fail: retry what a retry can help, give up early on the rest.

What users call; what is not exported here is imported from its module
    decorator     `@retrying`, `call`, `attempts`: sync, async, generators, chains
    turn          `Turn`: one budget for all steps, tools and agents of an answer
    idempotency   `@mutating`, keys and ledgers: a call with side effects is made once
    hook          notified of every attempt, wait and breaker change
    timing        clock, sleep and jitter; `testing()` replaces them, so that tests do not wait
    tenacity      the same policy as strategies of tenacity

The pure core: no clock, randomness or I/O
    failure, classify    what went wrong, in four buckets: answers; exceptions
    policy               how many attempts, how long to wait, over which chain
    breaker              which providers and credentials are skipped for a while
    schedule             what a call does next: try, wait or fail

In between
    run   one call along its schedule: its attempts, and the loops that wait and call
"""

from looptrap.errors import GiveUp
from looptrap.retry.breaker import Breakers
from looptrap.retry.decorator import attempts, call, retrying
from looptrap.retry.failure import Failure
from looptrap.retry.idempotency import mutating
from looptrap.retry.policy import Chain, Link, RetryPolicy
from looptrap.retry.timing import testing
from looptrap.retry.turn import Turn

__all__ = [
    "Breakers",
    "Chain",
    "Failure",
    "GiveUp",
    "Link",
    "RetryPolicy",
    "Turn",
    "attempts",
    "call",
    "mutating",
    "retrying",
    "testing",
]
