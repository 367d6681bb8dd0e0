"""The key that a mutating call is made under: the same while transport retries it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from looptrap.errors import IdempotencyError

_KEY: ContextVar[str] = ContextVar("looptrap_retry_key", default="")


def current_key() -> str:
    """Return the key of the call that this runs in, to send along as `Idempotency-Key`; else ""."""
    return _KEY.get()


@contextmanager
def idempotent(key: str) -> Iterator[str]:
    """Make the calls in here under one key."""
    if not key:
        raise IdempotencyError("an idempotency key is empty; a turn makes one: turn.key(decision)")
    token = _KEY.set(key)
    try:
        yield key
    finally:
        _KEY.reset(token)
