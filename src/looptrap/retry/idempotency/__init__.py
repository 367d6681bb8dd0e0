"""Idempotency: a tool that changes something does so once, however often the call is sent.

key      the key that a call is made under
digest   what tells other arguments under the same key
ledger   who has done what: in this process
shared   the same for all instances, in the store; `ledger.lua` is its script
mutate   the decorator that refuses to be retried without a key
"""

from looptrap.retry.idempotency.decorator import current_key, idempotent, mutating
from looptrap.retry.idempotency.ledger import AsyncLedger, Ledger, MemoryLedger
from looptrap.retry.idempotency.store_ledger import StoreLedger

__all__ = [
    "AsyncLedger",
    "Ledger",
    "MemoryLedger",
    "StoreLedger",
    "current_key",
    "idempotent",
    "mutating",
]
