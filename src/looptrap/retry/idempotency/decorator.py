"""`@mutating`: a function with side effects, which is not retried without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, TypeVar, overload

from looptrap.errors import IdempotencyError
from looptrap.retry.attempt import current_attempt
from looptrap.retry.idempotency.ledger import (
    AsyncLedger,
    CallInProgress,
    CallResult,
    CallState,
    Ledger,
    canonical_call,
)
from looptrap.retry.timing import Timing, current_timing

_KEY: ContextVar[str] = ContextVar("looptrap_retry_key", default="")


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


F = TypeVar("F", bound=Callable[..., Any])

WAIT_TIMEOUT_S = 10.0
"""Seconds to wait while the same call is made elsewhere."""
MIN_POLL_S, MAX_POLL_S = 0.05, 1.0
LEASE_MARGIN_S = 0.001
"""Added to the end of a lease before the next look."""


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
    if fn is not None:
        return _wrap(fn, None, patience, None)
    return lambda fn: _wrap(fn, ledger, patience, compare)


def _wrap(
    fn: Callable[..., Any],
    ledger: Any,
    patience: float,
    compare: Callable[..., Any] | None,
) -> Any:
    if isgeneratorfunction(fn) or isasyncgenfunction(fn):
        raise TypeError(f"{fn.__qualname__} is a generator: a mutating call has one result")
    is_async = iscoroutinefunction(fn)
    if ledger is not None and iscoroutinefunction(ledger.begin) and not is_async:
        raise TypeError(f"{fn.__qualname__} is not async, and {type(ledger).__name__} is")
    name = fn.__qualname__

    def content(args: Any, kwargs: Any) -> bytes:
        if compare is not None:
            args, kwargs = [compare(*args, **kwargs)], {}
        return canonical_call(name, args, kwargs)

    def plain(*args: Any, **kwargs: Any) -> Any:
        key = _key_of(name)
        if not key or ledger is None:
            return fn(*args, **kwargs)
        return _once(ledger, key, content(args, kwargs), patience, lambda: fn(*args, **kwargs))

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        key = _key_of(name)
        if not key or ledger is None:
            return await fn(*args, **kwargs)
        return await _once_async(
            ledger, key, content(args, kwargs), patience, lambda: fn(*args, **kwargs)
        )

    return update_wrapper(coroutine if is_async else plain, fn)


def _key_of(name: str) -> str:
    """Return the key of this call; without one, forbid outer attempts to be retried."""
    key = current_key()
    attempt = current_attempt()
    if not key and attempt is not None:
        attempt.forbid_all_retries(f"since {name} changes something and was called without a key")
    return key


def _once(
    ledger: Ledger, key: str, content: bytes, patience: float, make: Callable[[], Any]
) -> Any:
    timing = current_timing()
    intervals = _poll_intervals(key, patience, timing)
    while isinstance(state := ledger.begin(key, content), CallInProgress):
        timing.sleep(min(next(intervals), state.seconds + LEASE_MARGIN_S))
    if isinstance(state, CallResult):
        return state.result
    try:
        result = make()
    except BaseException:
        ledger.abandon(state)
        raise
    ledger.finish(state, result)
    return result


async def _once_async(
    ledger: Any, key: str, content: bytes, patience: float, make: Callable[[], Any]
) -> Any:
    timing = current_timing()
    intervals = _poll_intervals(key, patience, timing)
    while isinstance(state := await _resolve(ledger.begin(key, content)), CallInProgress):
        await timing.sleep_async(min(next(intervals), state.seconds + LEASE_MARGIN_S))
    if isinstance(state, CallResult):
        return state.result
    try:
        result = await make()
    except BaseException:
        await _resolve(ledger.abandon(state))
        raise
    await _resolve(ledger.finish(state, result))
    return result


async def _resolve(answer: Any) -> Any:
    """Return the answer of a synchronous or asynchronous ledger."""
    return answer if answer is None or isinstance(answer, CallState) else await answer


def _poll_intervals(key: str, patience: float, timing: Timing) -> Iterator[float]:
    """Yield increasing waits before each further look; raise when `patience` is over."""
    end = timing.clock() + patience
    pause = MIN_POLL_S
    while (left := end - timing.clock()) > 0:
        yield min(pause, left)
        pause = min(2 * pause, MAX_POLL_S)
    raise IdempotencyError(
        f"the call under the key {key!r} is still being made elsewhere, after {patience:g} s"
    )
