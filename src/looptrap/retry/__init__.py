"""Calls that fail: retry what is worth retrying, give up cheaply on the rest.

What people write
    decorate      `@retrying`, `call`, `attempts`: sync, async, generators, chains
    turn          `Turn`: one budget for all steps, tools and agents of an answer
    idempotency   `@mutating`, keys and ledgers: what changes something does so once
    hook          who hears of it
    timing        time and chance, and `testing()`, which takes none
    tenacity      the same policy for those who have tenacity already

What it rests on: pure, no clock, chance or I/O
    failure, classify    what went wrong, in four buckets
    policy, backoff      how often and how long
    breaker, breakers    whom to leave alone for a while
    chain, course        where a call goes next

In between
    attempt   whose attempt this is: it owns all retries inside it
    drive     one call on its course
    loop      the thin loops that wait and call
"""

from looptrap.errors import AllProvidersFailed, GiveUp, IdempotencyError
from looptrap.retry.attempt import Attempt
from looptrap.retry.breaker import Breakers
from looptrap.retry.classify import classify, classify_answer, classify_event, classify_tool
from looptrap.retry.classify.exception import Classifier, Classifiers
from looptrap.retry.decorator import Attempts, Failover, Retrying, attempts, call, retrying
from looptrap.retry.failure import Bucket, Failure
from looptrap.retry.hook import Event, Hook
from looptrap.retry.idempotency import (
    AsyncLedger,
    Ledger,
    MemoryLedger,
    StoreLedger,
    current_key,
    idempotent,
    mutating,
)
from looptrap.retry.policy import Backoff, Chain, Link, RetryPolicy
from looptrap.retry.timing import FakeClock, Timing, testing
from looptrap.retry.turn import INTERRUPTION, Marker, Turn, TurnLimits, TurnUsage, current_turn

__all__ = [
    "INTERRUPTION",
    "AllProvidersFailed",
    "AsyncLedger",
    "Attempt",
    "Attempts",
    "Backoff",
    "Breakers",
    "Bucket",
    "Chain",
    "Classifier",
    "Classifiers",
    "Event",
    "Failover",
    "Failure",
    "FakeClock",
    "GiveUp",
    "Hook",
    "IdempotencyError",
    "Ledger",
    "Link",
    "Marker",
    "MemoryLedger",
    "RetryPolicy",
    "Retrying",
    "StoreLedger",
    "Timing",
    "Turn",
    "TurnLimits",
    "TurnUsage",
    "attempts",
    "call",
    "classify",
    "classify_answer",
    "classify_event",
    "classify_tool",
    "current_key",
    "current_turn",
    "idempotent",
    "mutating",
    "retrying",
    "testing",
]
