"""One call along its schedule: its attempts, and the loops that wait and call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from inspect import isasyncgenfunction, isawaitable, iscoroutinefunction, isgeneratorfunction
from math import inf
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar

from looptrap.errors import AllProvidersFailed
from looptrap.retry.breaker import Breakers, Source
from looptrap.retry.failure import Failure
from looptrap.retry.hook import Event, Hook, notify_hooks
from looptrap.retry.policy import Chain, Link, RetryPolicy
from looptrap.retry.schedule import (
    DEADLINE_FAILURE,
    FinalFailure,
    RetrySchedule,
    ScheduleStep,
    Try,
    Wait,
)
from looptrap.retry.timing import Timing, current_timing

T = TypeVar("T")

# Breakers are shared by threads and have no lock of their own. Each use takes microseconds, so one
# lock for all of them is enough.
_BREAKER_LOCK = Lock()

_CURRENT_ATTEMPT: ContextVar[Attempt | None] = ContextVar("looptrap_retry_attempt", default=None)


class Attempt:
    """One attempt, as a context: an error in it is suppressed if another attempt follows."""

    def __init__(self, retry_run: RetryRun | None, number: int, link: Link | None) -> None:
        """Begin an attempt of a run; without one, another process retries it."""
        self._retry_run = retry_run
        self._outer = self._previous = current_attempt()
        self._is_deferred = False
        self.number = number
        """The first is 1."""
        self.link = link
        """Its link; None without a chain."""
        self.is_over = False
        self.no_retry_reason = ""
        """Why it must not be retried; empty where it may."""

    def forbid_all_retries(self, why: str) -> None:
        """Forbid this and all outer attempts to be retried: each would repeat the same call."""
        self.no_retry_reason = self.no_retry_reason or why
        if self._outer is not None:
            self._outer.forbid_all_retries(why)

    def defer(self) -> None:
        """Leave the context without an end: the result is awaited later, in the same attempt."""
        self._is_deferred = True

    @contextmanager
    def delivering(self) -> Iterator[None]:
        """Leave the attempt while a consumer has an item: a stream that began is not retried."""
        self.no_retry_reason = (
            self.no_retry_reason or "since a part of the stream had been delivered"
        )
        _CURRENT_ATTEMPT.set(self._previous)
        try:
            yield
        except BaseException:  # the consumer has stopped iterating
            self._succeeded()
            self.defer()
            raise
        finally:
            self._previous = _CURRENT_ATTEMPT.get()
            _CURRENT_ATTEMPT.set(self)

    def __enter__(self) -> Self:
        self._is_deferred = False
        self._previous = _CURRENT_ATTEMPT.get()
        _CURRENT_ATTEMPT.set(self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> bool:
        # Not by a token: frameworks may resume after a `yield` in another context.
        _CURRENT_ATTEMPT.set(self._previous)
        if self._is_deferred:
            return False
        if error is None:
            self._succeeded()
            return False
        self.is_over = True
        return self._retry_run is not None and self._retry_run.failed(self, error)

    def _succeeded(self) -> None:
        self.is_over = True
        if self._retry_run is not None:
            self._retry_run.succeeded()


def current_attempt() -> Attempt | None:
    """Return the attempt that this code runs in; tasks may outlive the one that started them."""
    attempt = _CURRENT_ATTEMPT.get()
    while attempt is not None and attempt.is_over:
        attempt = attempt._outer
    return attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOptions:
    """The options of retried calls."""

    policy: RetryPolicy = RetryPolicy()  # noqa: RUF009 - frozen
    chain: Chain | None = None
    breakers: Breakers | None = None
    hooks: tuple[Hook, ...] = ()
    timing: Timing | None = None
    """None for the real time, or that of `testing()`."""


ErrorFactory = Callable[[FinalFailure, BaseException | None], BaseException]
"""Returns the final error of a failed call, given its latest error."""


class DeadlinePassed(TimeoutError):  # noqa: N818 - what happened, not a fault
    """An attempt was cancelled at the deadline."""

    def __init__(self, retry_run: RetryRun) -> None:
        super().__init__("the deadline passed during the attempt")
        self.retry_run = retry_run


class RetryRun:
    """One call in progress: decides the next step, notifies hooks, and makes the final error."""

    def __init__(
        self,
        options: RetryOptions,
        name: str,
        *,
        deadline: float | None = None,
        turn: str = "",
        error_factory: ErrorFactory | None = None,
    ) -> None:
        """Begin now; `deadline` is a time of the clock."""
        self._options = options
        self._name = name
        self._turn = turn
        self._error_factory = error_factory or final_error
        self.timing = options.timing or current_timing()
        self._chain = options.chain or Chain((Link(name),))
        self._schedule = RetrySchedule(
            self._chain,
            options.policy,
            options.breakers,
            now=self.timing.clock(),
            deadline=deadline,
            # The process is the caller, and a turn its conversation.
            source=Source("", lambda: turn) if turn else None,
        )
        # Inside another attempt its owner retries; two owners would multiply the attempts.
        self._is_owner = current_attempt() is None
        self._step: ScheduleStep | None = None
        self.is_done = False

    @property
    def attempts(self) -> int:
        """The number of attempts made."""
        return self._schedule.attempts

    def left(self) -> float | None:
        """Return the seconds until the deadline; None where there is none."""
        deadline = self._schedule.deadline
        return None if deadline == inf else max(0.0, deadline - self.timing.clock())

    def advance(self) -> Attempt | float:
        """Return the attempt to make now, or the seconds to wait before the next call of this."""
        step = self._step or self._next()
        self._step = None
        match step:
            case Try(link):
                named = link if self._options.chain is not None else None
                self._notify("attempt", link=named)
                return Attempt(self, self.attempts, named)
            case Wait(seconds, failure):
                self._notify("wait", seconds=seconds, failure=failure)
                return seconds
            case FinalFailure():
                raise self._end(step, None)

    def next_attempt(self) -> Attempt:
        """Wait as the schedule says, and return the attempt to make."""
        while not isinstance(step := self.advance(), Attempt):
            self.timing.sleep(step)
        return step

    async def next_attempt_async(self) -> Attempt:
        """Wait as the schedule says, and return the attempt to make."""
        while not isinstance(step := self.advance(), Attempt):
            await self.timing.sleep_async(step)
        return step

    def succeeded(self) -> None:
        """Record a success."""
        self.is_done = True
        self._update(self._schedule.succeeded)

    def failed(self, attempt: Attempt, error: BaseException) -> bool:
        """Record a failure; return whether another attempt follows, or raise the final error."""
        if not isinstance(error, Exception):  # cancelled or interrupted: no outcome
            self._update(self._schedule.abandoned)
            return False
        failure = self._failure(error)
        if attempt.no_retry_reason and self._is_owner and failure.is_retryable:
            error.add_note(f"looptrap: not tried again, {attempt.no_retry_reason}")
        if failure is DEADLINE_FAILURE or attempt.no_retry_reason or not self._is_owner:
            link = (attempt.link or self._chain.links[0]).name
            step: ScheduleStep = FinalFailure(
                failure, ((link, failure),), self.attempts, failure.retry_after
            )
        else:
            step = self._next()
        if not isinstance(step, FinalFailure):
            self._step = step
            return True
        raised = self._end(step, error)
        if raised is error:
            return False
        raise raised from raised.__cause__ or error

    def _failure(self, error: Exception) -> Failure:
        """Classify an error, and record the failure."""
        if isinstance(error, DeadlinePassed) and error.retry_run is self:
            self._update(self._schedule.abandoned)  # our deadline says nothing about the provider
            return DEADLINE_FAILURE
        failure = self._options.policy.classifiers.classify(error, self.timing.wall())
        self._update(partial(self._schedule.failed, failure))
        return failure

    def _next(self) -> ScheduleStep:
        return self._update(partial(self._schedule.next, chance=self.timing.chance()))

    def _update(self, update: Callable[[float], T]) -> T:
        """Update the schedule, and notify hooks of the circuits that changed."""
        with _BREAKER_LOCK:
            result = update(self.timing.clock())
        for change in self._schedule.take_changes():
            key = change.key
            circuit = key.provider if key.credential is None else f"{key.provider} {key.credential}"
            self._notify("breaker", circuit=circuit.strip(), state=change.state)
        return result

    def _end(self, failed: FinalFailure, error: BaseException | None) -> BaseException:
        self._notify("give_up", failure=failed.failure)
        return self._error_factory(failed, error)

    def _notify(self, kind: str, **fields: object) -> None:
        if self._options.hooks:
            about = {"name": self._name, "attempt": self.attempts, "turn": self._turn}
            event = Event(kind=kind, **about, **fields)  # type: ignore[arg-type]
            notify_hooks(self._options.hooks, event)


def final_error(failed: FinalFailure, error: BaseException | None) -> BaseException:
    """Return the call's own error; AllProvidersFailed where several links or no attempt failed."""
    if error is None or (len(failed.reasons) > 1 and failed.failure.is_retryable):
        return AllProvidersFailed(failed.reasons, retry_after=failed.retry_after)
    return error


AttemptCall = Callable[[Attempt], Any]
"""Calls the function for one attempt."""


def run_like(kind: Callable[..., Any], begin: Callable[[], RetryRun], make: AttemptCall) -> Any:
    """Return what a function of this kind returns: a value, a coroutine or an iterator."""
    if isgeneratorfunction(kind):
        return stream_sync(begin, make)
    if isasyncgenfunction(kind):
        return stream_async(begin, make)
    if iscoroutinefunction(kind):
        return run_async(begin, make)
    return run_sync(begin(), make)


def run_sync(retry_run: RetryRun, make: AttemptCall) -> Any:
    """Make attempts until one succeeds; the caller awaits an awaitable result."""
    while True:
        with retry_run.next_attempt() as attempt:
            result = make(attempt)
            if not isawaitable(result):
                return result
            # Clients wrap asynchronous functions in ordinary ones: it is known only now.
            attempt.defer()
            return _finish(retry_run, make, attempt, result)


async def run_async(begin: Callable[[], RetryRun], make: AttemptCall) -> Any:
    """Make attempts until one succeeds or the deadline passes."""
    retry_run = begin()
    attempt = await retry_run.next_attempt_async()
    return await _finish(retry_run, make, attempt, None)


async def _finish(
    retry_run: RetryRun, make: AttemptCall, attempt: Attempt, begun: Awaitable[Any] | None
) -> Any:
    while True:
        with attempt:
            return await _in_time(retry_run, make(attempt) if begun is None else begun)
        begun = None
        attempt = await retry_run.next_attempt_async()


async def _in_time(retry_run: RetryRun, awaited: Awaitable[Any]) -> Any:
    limit = asyncio.timeout(retry_run.left())
    try:
        async with limit:
            return await awaited
    except TimeoutError as error:
        if limit.expired():
            raise DeadlinePassed(retry_run) from error
        raise


def stream_sync(begin: Callable[[], RetryRun], make: AttemptCall) -> Generator[Any, None, Any]:
    """Yield the items of the first attempt that has any."""
    retry_run = begin()
    while True:
        with retry_run.next_attempt() as attempt, closing(make(attempt)) as items:
            while True:
                try:
                    item = next(items)
                except StopIteration as end:
                    return end.value
                with attempt.delivering():
                    yield item


async def stream_async(
    begin: Callable[[], RetryRun], make: AttemptCall
) -> AsyncGenerator[Any, None]:
    """Yield the items of the first attempt that has any."""
    retry_run = begin()
    while True:
        with await retry_run.next_attempt_async() as attempt:
            async with aclosing(make(attempt)) as items:
                while True:
                    try:
                        item = await _in_time(retry_run, anext(items))
                    except StopAsyncIteration:
                        return
                    with attempt.delivering():
                        yield item


def drive(steps: Generator[Any, Any, T]) -> T:
    """Run a generator that gets back each value it yields."""
    try:
        value = next(steps)
        while True:
            value = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


async def drive_async(steps: Generator[Any, Any, T]) -> T:
    """Run a generator that gets back each value it yields, awaited where it is awaitable."""
    try:
        value = next(steps)
        while True:
            try:
                value = await value if isawaitable(value) else value
            except BaseException as error:  # noqa: BLE001 - the generator handles it
                value = steps.throw(error)
            else:
                value = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result
