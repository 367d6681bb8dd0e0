"""Idempotency: a call with side effects is made once, however often it is sent.

decorator     `@mutating`, and the key that a call is made under
ledger        remembers calls and their results, in this process
store_ledger  the same for all instances, in the store; `ledger.lua` is its script
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
