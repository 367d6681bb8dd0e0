"""Ledgers: who is making which mutating call, and what came of it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Any, Protocol, TypeAlias

import msgspec

from looptrap.errors import IdempotencyError
from looptrap.retry.idempotency.digest import digest_of

LEASE = 60.0
"""Seconds after which a call that was begun and never ended counts as lost."""
KEEP = 86_400.0
"""Seconds for which a result is kept."""


class Begun(msgspec.Struct, frozen=True):
    """The call is yours to make; then say how it ended."""

    key: str
    digest: bytes
    token: bytes


class Busy(msgspec.Struct, frozen=True):
    """Somebody is making it."""

    seconds: float
    """When their lease ends."""


class Done(msgspec.Struct, frozen=True):
    """It was made before, and this is what came of it."""

    result: Any


Standing: TypeAlias = Begun | Busy | Done


class Ledger(Protocol):
    """Remembers mutating calls by their keys; asked at once."""

    def begin(self, key: str, content: bytes) -> Standing:
        """Return how a call stands; raises IdempotencyError for other content under the key."""
        ...

    def finish(self, begun: Begun, result: Any) -> None:
        """Keep the result of a call that was made."""
        ...

    def abandon(self, begun: Begun) -> None:
        """Forget a call that failed: the next one may make it."""
        ...


class AsyncLedger(Protocol):
    """Remembers mutating calls by their keys; asked over a network."""

    def begin(self, key: str, content: bytes) -> Awaitable[Standing]:
        """Return how a call stands; raises IdempotencyError for other content under the key."""
        ...

    def finish(self, begun: Begun, result: Any) -> Awaitable[None]:
        """Keep the result of a call that was made."""
        ...

    def abandon(self, begun: Begun) -> Awaitable[None]:
        """Forget a call that failed: the next one may make it."""
        ...


def other_content(key: str) -> IdempotencyError:
    """Return the error for another call under a key that was used."""
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
        lease: float = LEASE,
        keep: float = KEEP,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lease = lease
        self._keep = keep
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._begun = 0

    def begin(self, key: str, content: bytes) -> Standing:
        """Return how a call stands; raises IdempotencyError for other content under the key."""
        digest, now = digest_of(content), self._clock()
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.until <= now:
                return self._add(key, digest, now)
            if entry.digest != digest:
                raise other_content(key)
            return Done(entry.result) if entry.is_done else Busy(entry.until - now)

    def finish(self, begun: Begun, result: Any) -> None:
        """Keep the result of a call that was made."""
        now = self._clock()
        with self._lock:
            entry = self._entries.get(begun.key)
            if entry is None or entry.token != begun.token:
                return  # its lease had ended, and somebody else took over
            entry.is_done, entry.result, entry.until = True, result, now + self._keep

    def abandon(self, begun: Begun) -> None:
        """Forget a call that failed: the next one may make it."""
        with self._lock:
            entry = self._entries.get(begun.key)
            if entry is not None and entry.token == begun.token and not entry.is_done:
                del self._entries[begun.key]

    def _add(self, key: str, digest: bytes, now: float) -> Begun:
        self._begun += 1
        begun = Begun(key, digest, b"%d" % self._begun)
        self._entries.pop(key, None)
        self._entries[key] = _Entry(digest, begun.token, now + self._lease)
        if len(self._entries) > self._most:
            self._make_room(now)
        return begun

    def _make_room(self, now: float) -> None:
        """Drop the oldest result; calls that are being made stay."""
        for key, entry in self._entries.items():
            if entry.is_done or entry.until <= now:
                del self._entries[key]
                return
