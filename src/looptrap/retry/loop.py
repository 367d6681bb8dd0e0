"""The loops around a drive: one that blocks, one that awaits, and one each for streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from inspect import isasyncgenfunction, isawaitable, iscoroutinefunction, isgeneratorfunction
from typing import Any

from looptrap.retry.attempt import Attempt
from looptrap.retry.drive import DeadlinePassed, Drive

Make = Callable[[Attempt], Any]
"""Begins one attempt: calls the function."""

GIVEN_OUT = "since a part of the stream had been given out"


def run_as(kind: Callable[..., Any], begin: Callable[[], Drive], make: Make) -> Any:
    """Return what a function of this kind returns: a value, or what is awaited or iterated."""
    if isgeneratorfunction(kind):
        return stream(begin, make)
    if isasyncgenfunction(kind):
        return stream_async(begin, make)
    if iscoroutinefunction(kind):
        return run_async(begin, make)
    return run(begin(), make)


def next_attempt(drive: Drive) -> Attempt:
    """Wait as long as it takes, and return the attempt to make."""
    while not isinstance(step := drive.advance(), Attempt):
        drive.timing.sleep(step)
    return step


async def next_attempt_async(drive: Drive) -> Attempt:
    """Wait as long as it takes, and return the attempt to make."""
    while not isinstance(step := drive.advance(), Attempt):
        await drive.timing.sleep_async(step)
    return step


def run(drive: Drive, make: Make) -> Any:
    """Make attempts until one succeeds; what turns out to be awaitable is awaited by the caller."""
    while True:
        with next_attempt(drive) as attempt:
            result = make(attempt)
            if not isawaitable(result):
                return result
            # Clients wrap asynchronous functions in ordinary ones: only now is it known.
            attempt.keep()
            return _finish(drive, make, attempt, result)


async def run_async(begin: Callable[[], Drive], make: Make) -> Any:
    """Make attempts until one succeeds; none is waited for beyond the deadline."""
    drive = begin()
    attempt = await next_attempt_async(drive)
    return await _finish(drive, make, attempt, None)


async def _finish(drive: Drive, make: Make, attempt: Attempt, begun: Awaitable[Any] | None) -> Any:
    while True:
        with attempt:
            return await _in_time(drive, make(attempt) if begun is None else begun)
        begun = None
        attempt = await next_attempt_async(drive)


async def _in_time(drive: Drive, awaited: Awaitable[Any]) -> Any:
    """Await something until the deadline, and no longer."""
    limit = asyncio.timeout(drive.left())
    try:
        async with limit:
            return await awaited
    except TimeoutError as error:
        if limit.expired():
            raise DeadlinePassed(drive) from error
        raise


def stream(begin: Callable[[], Drive], make: Make) -> Generator[Any, None, Any]:
    """Give out the items of the first attempt that has any: once begun it is never replayed."""
    drive = begin()
    while True:
        attempt = next_attempt(drive)
        items: Iterator[Any] | None = None
        while True:
            try:
                with attempt.resumed():
                    items = make(attempt) if items is None else items
                    item = next(items)
            except StopIteration as end:
                attempt.won()
                return end.value
            except BaseException as error:
                if attempt.lost(error):
                    break
                raise
            attempt.bind(GIVEN_OUT)
            try:
                yield item
            except BaseException:  # whoever listens has heard enough
                attempt.won()
                if isinstance(items, Generator):
                    items.close()
                raise


async def stream_async(begin: Callable[[], Drive], make: Make) -> AsyncGenerator[Any, None]:
    """Give out the items of the first attempt that has any: once begun it is never replayed."""
    drive = begin()
    while True:
        attempt = await next_attempt_async(drive)
        items: AsyncIterator[Any] | None = None
        while True:
            try:
                with attempt.resumed():
                    items = make(attempt) if items is None else items
                    item = await _in_time(drive, anext(items))
            except StopAsyncIteration:
                attempt.won()
                return
            except BaseException as error:
                if attempt.lost(error):
                    break
                raise
            attempt.bind(GIVEN_OUT)
            try:
                yield item
            except BaseException:  # whoever listens has heard enough
                attempt.won()
                if isinstance(items, AsyncGenerator):
                    await items.aclose()
                raise
