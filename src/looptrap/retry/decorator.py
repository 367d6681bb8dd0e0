"""Retrying as users write it: a decorator, a call, or a loop over attempts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial, update_wrapper
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from looptrap.retry.breaker import Breakers
from looptrap.retry.hook import Hook
from looptrap.retry.policy import Chain, Link, RetryPolicy
from looptrap.retry.run import Attempt, RetryOptions, RetryRun, run_like
from looptrap.retry.timing import Timing

P = ParamSpec("P")
T = TypeVar("T")


class Attempts:
    """Attempts to loop over: `for attempt in attempts(policy): with attempt: …`, or `async for`."""

    def __init__(self, begin: Callable[[], RetryRun]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[Attempt]:
        retry_run = self._begin()
        while not retry_run.is_done:
            attempt = retry_run.next_attempt()
            yield attempt
            _check_used(attempt)

    async def __aiter__(self) -> AsyncIterator[Attempt]:
        retry_run = self._begin()
        while not retry_run.is_done:
            attempt = await retry_run.next_attempt_async()
            yield attempt
            _check_used(attempt)


class Retrying:
    """Retries functions; between calls it keeps nothing but its breakers."""

    def __init__(self, options: RetryOptions) -> None:
        self._options = options

    def __call__(self, fn: Callable[P, T], /) -> Callable[P, T]:
        """Return the function with retries, of the same kind (sync, async, generator)."""
        return _same_kind(fn, partial(self.call, fn))

    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function with retries; what an asynchronous one returns is to be awaited."""
        result: T = run_like(fn, self._begin(fn), lambda _attempt: fn(*args, **kwargs))
        return result

    def attempts(self, name: str = "attempts") -> Attempts:
        """Return attempts to loop over; hooks get them under this name."""
        return Attempts(lambda: RetryRun(self._options, name))

    def _begin(self, fn: Callable[..., Any]) -> Callable[[], RetryRun]:
        return lambda: RetryRun(self._options, function_name(fn))


class Failover(Retrying):
    """Retries functions over a chain: they take the `Link` to use as their first argument."""

    def __call__(self, fn: Callable[Concatenate[Link, P], T], /) -> Callable[P, T]:  # type: ignore[override]
        """Return the function without its first argument, which is the attempt's link."""
        return _same_kind(fn, partial(self.call, fn))

    def call(  # type: ignore[override]
        self, fn: Callable[Concatenate[Link, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function with each link in turn until one succeeds."""
        result: T = run_like(
            fn,
            self._begin(fn),
            lambda attempt: fn(attempt.link, *args, **kwargs),  # type: ignore[arg-type]
        )
        return result


@overload
def retrying(fn: Callable[P, T], /) -> Callable[P, T]: ...
@overload
def retrying(
    policy: RetryPolicy = ...,
    /,
    *,
    breakers: Breakers | None = None,
    hooks: Sequence[Hook] = (),
    timing: Timing | None = None,
) -> Retrying: ...
@overload
def retrying(
    policy: RetryPolicy = ...,
    /,
    *,
    chain: Chain,
    breakers: Breakers | None = None,
    hooks: Sequence[Hook] = (),
    timing: Timing | None = None,
) -> Failover: ...
def retrying(
    policy: RetryPolicy | Callable[..., Any] = RetryPolicy(),  # noqa: B008 - frozen
    /,
    *,
    chain: Chain | None = None,
    breakers: Breakers | None = None,
    hooks: Sequence[Hook] = (),
    timing: Timing | None = None,
) -> Any:
    """Retry failures that a retry can help: a decorator, bare or with a policy.

    With a `chain` the function takes a `Link` first and fails over, with breakers of its own unless
    `breakers` are given. Share one `Breakers` between all functions that call the same providers.
    """
    if not isinstance(policy, RetryPolicy):
        return Retrying(RetryOptions())(policy)
    if chain is not None and breakers is None:
        breakers = Breakers()
    options = RetryOptions(
        policy=policy, chain=chain, breakers=breakers, hooks=tuple(hooks), timing=timing
    )
    return Retrying(options) if chain is None else Failover(options)


def call(fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function with the retries of the default policy."""
    return Retrying(RetryOptions()).call(fn, *args, **kwargs)


def attempts(
    policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
    /,
    *,
    chain: Chain | None = None,
    breakers: Breakers | None = None,
    hooks: Sequence[Hook] = (),
    timing: Timing | None = None,
) -> Attempts:
    """Return attempts to loop over; with a chain each has its `link`."""
    options = RetryOptions(
        policy=policy, chain=chain, breakers=breakers, hooks=tuple(hooks), timing=timing
    )
    return Retrying(options).attempts()


def function_name(fn: Callable[..., Any]) -> str:
    """Return the name of a function in events."""
    return getattr(fn, "__qualname__", None) or type(fn).__qualname__


def _same_kind(fn: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the same kind that makes this call: frameworks check the kind."""

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await call(*args, **kwargs)

    async def items_async(*args: Any, **kwargs: Any) -> Any:
        async with aclosing(call(*args, **kwargs)) as items:
            async for item in items:
                yield item

    def items(*args: Any, **kwargs: Any) -> Any:
        return (yield from call(*args, **kwargs))

    def plain(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    if iscoroutinefunction(fn):
        return update_wrapper(coroutine, fn)
    if isasyncgenfunction(fn):
        return update_wrapper(items_async, fn)
    return update_wrapper(items if isgeneratorfunction(fn) else plain, fn)


def _check_used(attempt: Attempt) -> None:
    if not attempt.is_over:
        raise RuntimeError("an attempt was not used: write `with attempt:` inside the loop")
