"""Idempotency: a call with side effects is made once, however often it is sent.

`@mutating` marks such a function, `idempotent` sets the key that it is called under, and a ledger
remembers calls and their results: in this process, or in a store (script: `ledger.lua`).
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from hashlib import blake2b
from importlib.resources import files
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar, overload

import msgspec

from looptrap.detect.canonical import join
from looptrap.dialect.content import canonical
from looptrap.errors import IdempotencyError
from looptrap.retry.run import current_attempt, drive, drive_async
from looptrap.retry.timing import current_timing
from looptrap.store.redis import RedisStore

F = TypeVar("F", bound=Callable[..., Any])

LEASE_S = 60.0
"""Seconds after which an unfinished call counts as lost."""
RESULT_TTL_S = 86_400.0
"""Seconds for which a result is kept."""
WAIT_TIMEOUT_S = 10.0
"""Seconds to wait while the same call is made elsewhere."""
MIN_POLL_S, MAX_POLL_S = 0.05, 1.0
LEASE_MARGIN_S = 0.001
"""Added to the end of a lease before the next look."""

KEY_PREFIX = b"lt:idem:"
SCRIPT = files("looptrap.retry").joinpath("ledger.lua").read_bytes()

_KEY: ContextVar[str] = ContextVar("looptrap_retry_key", default="")

log = logging.getLogger("looptrap")


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


def current_key() -> str:
    """Return the key of the current call, to be sent as `Idempotency-Key`; else ""."""
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


@overload
def mutating(fn: F, /) -> F: ...
@overload
def mutating(
    *,
    ledger: Ledger | AsyncLedger | None = None,
    patience: float = WAIT_TIMEOUT_S,
    compare: Callable[..., Any] | None = None,
) -> Callable[[F], F]: ...
def mutating(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    ledger: Ledger | AsyncLedger | None = None,
    patience: float = WAIT_TIMEOUT_S,
    compare: Callable[..., Any] | None = None,
) -> Any:
    """Mark a function with outside effects: a mail, an order, a row.

    Without a key the call is made once: no outer attempt is retried any more. Under a key
    (`turn.tool`, `idempotent`) it may be retried, and with a `ledger` the same key returns the
    first result. `patience` is how long to wait while the same call is made elsewhere; `compare`
    gets the arguments and returns what identifies the call, as JSON.
    """
    if fn is None:
        return lambda fn: _wrap(fn, ledger, patience, compare)
    return _wrap(fn, None, patience, None)


def _wrap(
    fn: Callable[..., Any], ledger: Any, patience: float, compare: Callable[..., Any] | None
) -> Any:
    name = fn.__qualname__
    if isgeneratorfunction(fn) or isasyncgenfunction(fn):
        raise TypeError(f"{name} is a generator: a mutating call has one result")
    is_async = iscoroutinefunction(fn)
    if ledger is not None and iscoroutinefunction(ledger.begin) and not is_async:
        raise TypeError(f"{name} is not async, and {type(ledger).__name__} is")

    def ledger_key() -> str:
        """Return the key to look up, if any; without a key, outer attempts are not retried."""
        key, attempt = current_key(), current_attempt()
        if not key and attempt is not None:
            attempt.forbid_all_retries(
                f"since {name} changes something and was called without a key"
            )
        return key if ledger is not None else ""

    def steps(key: str, args: Any, kwargs: Any) -> Generator[Any, Any, Any]:
        """Make the call once; yield what the function and the ledger return, to be awaited."""
        timing = current_timing()
        compared = (args, kwargs) if compare is None else ([compare(*args, **kwargs)], {})
        content = canonical_call(name, *compared)
        sleep: Callable[[float], Any] = timing.sleep_async if is_async else timing.sleep
        pauses = _poll_intervals(key, patience, timing.clock)
        while isinstance(state := (yield ledger.begin(key, content)), CallInProgress):
            yield sleep(min(next(pauses), state.seconds + LEASE_MARGIN_S))
        if isinstance(state, CallResult):
            return state.result
        try:
            result = yield fn(*args, **kwargs)
        except BaseException:
            yield ledger.abandon(state)
            raise
        yield ledger.finish(state, result)
        return result

    def plain(*args: Any, **kwargs: Any) -> Any:
        key = ledger_key()
        return drive(steps(key, args, kwargs)) if key else fn(*args, **kwargs)

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        key = ledger_key()
        return await (drive_async(steps(key, args, kwargs)) if key else fn(*args, **kwargs))

    return update_wrapper(coroutine if is_async else plain, fn)


def _poll_intervals(key: str, patience: float, clock: Callable[[], float]) -> Iterator[float]:
    """Yield increasing waits before each further look; raise when `patience` is over."""
    end = clock() + patience
    pause = MIN_POLL_S
    while (left := end - clock()) > 0:
        yield min(pause, left)
        pause = min(2 * pause, MAX_POLL_S)
    raise IdempotencyError(
        f"the call under the key {key!r} is still being made elsewhere, after {patience:g} s"
    )


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


def key_reused_error(key: str) -> IdempotencyError:
    """Return the error for another call under a used key."""
    return IdempotencyError(
        f"the key {key!r} was used for another call, or with other arguments;"
        " a new decision needs a key of its own"
    )


class _Entry(msgspec.Struct):
    digest: bytes
    token: bytes
    until: float
    is_done: bool = False
    result: Any = None


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
        digest, now = call_digest(content), self._clock()
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.until <= now:
                return self._add(key, digest, now)
            if entry.digest != digest:
                raise key_reused_error(key)
            return CallResult(entry.result) if entry.is_done else CallInProgress(entry.until - now)

    def finish(self, lease: CallLease, result: Any) -> None:
        now = self._clock()
        with self._lock:
            entry = self._entries.get(lease.key)
            # Where its lease had ended, another caller has taken over.
            if entry is not None and entry.token == lease.token:
                entry.is_done, entry.result, entry.until = True, result, now + self._keep

    def abandon(self, lease: CallLease) -> None:
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
            # The oldest result is dropped, never a call in progress.
            ended = (key for key, one in self._entries.items() if one.is_done or one.until <= now)
            if (oldest := next(ended, None)) is not None:
                del self._entries[oldest]
        return lease


class StoreLedger:
    """A ledger for all instances, with keyed digests of arguments, and results as JSON or bytes.

    While the store is unavailable calls are refused: unrecorded, they could be made twice.
    """

    def __init__(
        self,
        store: RedisStore,
        *,
        scope: str = "",
        lease: float = LEASE_S,
        keep: float = RESULT_TTL_S,
    ) -> None:
        """Use a started store; keys of another `scope`, such as a tenant, are separate."""
        self._store = store
        self._scope = scope
        self._lease = _milliseconds(lease)
        self._keep = _milliseconds(keep)
        self._secret = b""

    async def begin(self, key: str, content: bytes) -> CallState:
        try:
            self._secret = self._secret or await self._store.configuration.secret()
            lease = CallLease(key, call_digest(content, self._secret), secrets.token_bytes(8))
            reply, *more = await self._do(b"begin", lease, self._lease)
        except OSError as error:
            raise IdempotencyError(f"the ledger cannot look up the key {key!r}: {error}") from error
        if reply == b"begun":
            return lease
        if reply == b"other":
            raise key_reused_error(key)
        if reply == b"done":
            return CallResult(_decode_result(key, more[0]))
        return CallInProgress(max(0, more[0]) / 1000)

    async def finish(self, lease: CallLease, result: Any) -> None:
        try:
            await self._do(b"finish", lease, self._keep, _encode_result(result))
        except OSError as error:
            # The call was made: an error now would only cause a retry.
            log.error("the result of the call %r could not be stored: %s", lease.key, error)

    async def abandon(self, lease: CallLease) -> None:
        try:
            await self._do(b"abandon", lease)
        except OSError as error:
            log.error("the lease of the call %r could not be released: %s", lease.key, error)

    async def _do(self, act: bytes, lease: CallLease, *more: bytes) -> list[Any]:
        scoped = blake2b(self._scope.encode(), digest_size=16, person=b"looptrap-scope").digest()
        name = blake2b(lease.key.encode(), digest_size=20, key=scoped).hexdigest().encode()
        reply: list[Any] = await self._store.configuration.command(
            b"EVAL", KEY_PREFIX + name, act, lease.token, lease.digest, *more, script=SCRIPT
        )
        return reply


def _milliseconds(seconds: float) -> bytes:
    return b"%d" % max(1, round(seconds * 1000))


def _encode_result(result: Any) -> bytes:
    if isinstance(result, bytes):
        return b"b" + result
    try:
        return b"j" + msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return b"?"  # records at least that the call was made


def _decode_result(key: str, stored: bytes) -> Any:
    if stored[:1] == b"b":
        return stored[1:]
    if stored[:1] == b"j":
        return msgspec.json.decode(stored[1:])
    raise IdempotencyError(
        f"the call under the key {key!r} was made, but its result was neither JSON nor bytes"
        " and could not be stored"
    )
