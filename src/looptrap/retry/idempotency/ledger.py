"""Ledgers: mutating calls in progress, and their results."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any, Protocol, TypeAlias

import msgspec

from looptrap.detect.canonical import join
from looptrap.dialect.content import canonical
from looptrap.errors import IdempotencyError


def canonical_call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Return a call in canonical form; the order of keywords makes no difference."""
    try:
        return join([name, canonical([list(args), dict(kwargs)])])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise IdempotencyError(
            f"{name}: its arguments cannot be compared, since they are not JSON ({error});"
            " name what tells its calls apart: @mutating(compare=…)"
        ) from None


def call_digest(content: bytes, secret: bytes = b"") -> bytes:
    """Return the digest by which a call is remembered."""
    return blake2b(content, digest_size=16, key=secret[:64], person=b"looptrap-idem").digest()


LEASE_S = 60.0
"""Seconds after which an unfinished call counts as lost."""
RESULT_TTL_S = 86_400.0
"""Seconds for which a result is kept."""


class CallLease(msgspec.Struct, frozen=True):
    """Permission to make the call; its holder reports how it ended."""

    key: str
    digest: bytes
    token: bytes


class CallInProgress(msgspec.Struct, frozen=True):
    """The call is being made elsewhere."""

    seconds: float
    """Until that lease ends."""


class CallResult(msgspec.Struct, frozen=True):
    """The call was made before, with this result."""

    result: Any


CallState: TypeAlias = CallLease | CallInProgress | CallResult


class Ledger(Protocol):
    """Remembers mutating calls by their keys, synchronously."""

    def begin(self, key: str, content: bytes) -> CallState:
        """Return the state of a call; raises IdempotencyError for other content under the key."""
        ...

    def finish(self, lease: CallLease, result: Any) -> None:
        """Store the result of a call."""
        ...

    def abandon(self, lease: CallLease) -> None:
        """Forget a failed call, so that it may be made again."""
        ...


class AsyncLedger(Protocol):
    """The same, asynchronously."""

    def begin(self, key: str, content: bytes) -> Awaitable[CallState]: ...

    def finish(self, lease: CallLease, result: Any) -> Awaitable[None]: ...

    def abandon(self, lease: CallLease) -> Awaitable[None]: ...


def key_reused_error(key: str) -> IdempotencyError:
    """Return the error for another call under a used key."""
    return IdempotencyError(
        f"the key {key!r} was used for another call, or with other arguments;"
        " a new decision needs a key of its own"
    )


class _Entry:
    __slots__ = ("digest", "is_done", "result", "token", "until")

    def __init__(self, digest: bytes, token: bytes, until: float) -> None:
        self.digest = digest
        self.token = token
        self.until = until
        self.is_done = False
        self.result: Any = None


class MemoryLedger:
    """A ledger in this process, for threads and tasks alike; it holds at most `most` calls."""

    def __init__(
        self,
        *,
        lease: float = LEASE_S,
        keep: float = RESULT_TTL_S,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = lease
        self._keep = keep
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lease_count = 0

    def begin(self, key: str, content: bytes) -> CallState:
        """Return the state of a call; raises IdempotencyError for other content under the key."""
        digest, now = call_digest(content), self._clock()
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.until <= now:
                return self._add(key, digest, now)
            if entry.digest != digest:
                raise key_reused_error(key)
            return CallResult(entry.result) if entry.is_done else CallInProgress(entry.until - now)

    def finish(self, lease: CallLease, result: Any) -> None:
        """Store the result of a call."""
        now = self._clock()
        with self._lock:
            entry = self._entries.get(lease.key)
            if entry is None or entry.token != lease.token:
                return  # its lease had ended, and another caller has taken over
            entry.is_done, entry.result, entry.until = True, result, now + self._keep

    def abandon(self, lease: CallLease) -> None:
        """Forget a failed call, so that it may be made again."""
        with self._lock:
            entry = self._entries.get(lease.key)
            if entry is not None and entry.token == lease.token and not entry.is_done:
                del self._entries[lease.key]

    def _add(self, key: str, digest: bytes, now: float) -> CallLease:
        self._lease_count += 1
        lease = CallLease(key, digest, b"%d" % self._lease_count)
        self._entries.pop(key, None)
        self._entries[key] = _Entry(digest, lease.token, now + self._lease)
        if len(self._entries) > self._most:
            self._make_room(now)
        return lease

    def _make_room(self, now: float) -> None:
        """Drop the oldest result, never a call in progress."""
        for key, entry in self._entries.items():
            if entry.is_done or entry.until <= now:
                del self._entries[key]
                return
