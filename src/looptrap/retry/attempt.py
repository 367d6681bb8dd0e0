"""Attempts under way: whoever makes one owns the retries of everything inside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self

from looptrap.retry.policy import Link

_CURRENT_ATTEMPT: ContextVar[Attempt | None] = ContextVar("looptrap_retry_attempt", default=None)


class AttemptOwner(Protocol):
    """Who makes attempts, and hears how each ended."""

    def succeeded(self) -> None:
        """Take note of a success."""
        ...

    def failed(self, attempt: Attempt, error: BaseException) -> bool:
        """Take note of a failure; say whether another attempt follows, or raise what ends it."""
        ...


class Attempt:
    """One attempt, as a context: what is raised in it is swallowed while another one follows."""

    __slots__ = ("_around", "_driver", "_is_kept", "_outer", "binding", "is_over", "link", "number")

    def __init__(self, driver: AttemptOwner | None, number: int, link: Link | None) -> None:
        self._driver = driver
        self._outer = current_attempt()
        self._is_kept = False
        self.number = number
        """The first is 1."""
        self.link = link
        """Where it goes; None where there is no chain."""
        self.is_over = False
        self.binding = ""
        """Why it must not be made again; empty where it may."""

    def bind(self, why: str) -> None:
        """Forbid another attempt after this one, for whoever is making it."""
        self.binding = self.binding or why

    def bind_all(self, why: str) -> None:
        """Forbid another attempt to everybody around, too: each would do the same again."""
        self.bind(why)
        if self._outer is not None:
            self._outer.bind_all(why)

    def keep(self) -> None:
        """Leave the context without an end: what came is awaited later, in the same attempt."""
        self._is_kept = True

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Be under way while a piece of the work is done, whoever does the next one."""
        around = _CURRENT_ATTEMPT.get()
        _CURRENT_ATTEMPT.set(self)
        try:
            yield
        finally:
            _CURRENT_ATTEMPT.set(around)

    def succeeded(self) -> None:
        """End well."""
        self.is_over = True
        if self._driver is not None:
            self._driver.succeeded()

    def failed(self, error: BaseException) -> bool:
        """End with an error; say whether another attempt follows."""
        self.is_over = True
        return self._driver is not None and self._driver.failed(self, error)

    def __enter__(self) -> Self:
        self._is_kept = False
        self._around = _CURRENT_ATTEMPT.get()
        _CURRENT_ATTEMPT.set(self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _where: TracebackType | None,
    ) -> bool:
        # Not by a token: what a framework runs before and after a `yield` may differ in context.
        _CURRENT_ATTEMPT.set(self._around)
        if error is not None:
            return self.failed(error)
        if not self._is_kept:
            self.succeeded()
        return False


def current_attempt() -> Attempt | None:
    """Return the attempt that this runs in; tasks may outlive the one that started them."""
    attempt = _CURRENT_ATTEMPT.get()
    while attempt is not None and attempt.is_over:
        attempt = attempt._outer
    return attempt
