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

    __slots__ = (
        "_is_deferred",
        "_outer",
        "_owner",
        "_previous",
        "is_over",
        "link",
        "no_retry_reason",
        "number",
    )

    def __init__(self, owner: AttemptOwner | None, number: int, link: Link | None) -> None:
        self._owner = owner
        self._outer = current_attempt()
        self._is_deferred = False
        self.number = number
        """The first is 1."""
        self.link = link
        """Where it goes; None where there is no chain."""
        self.is_over = False
        self.no_retry_reason = ""
        """Why it must not be made again; empty where it may."""

    def forbid_retry(self, why: str) -> None:
        """Forbid another attempt after this one, for whoever is making it."""
        self.no_retry_reason = self.no_retry_reason or why

    def forbid_all_retries(self, why: str) -> None:
        """Forbid another attempt to everybody around, too: each would do the same again."""
        self.forbid_retry(why)
        if self._outer is not None:
            self._outer.forbid_all_retries(why)

    def defer(self) -> None:
        """Leave the context without an end: what came is awaited later, in the same attempt."""
        self._is_deferred = True

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Be under way while a piece of the work is done, whoever does the next one."""
        previous = _CURRENT_ATTEMPT.get()
        _CURRENT_ATTEMPT.set(self)
        try:
            yield
        finally:
            _CURRENT_ATTEMPT.set(previous)

    def succeeded(self) -> None:
        """End well."""
        self.is_over = True
        if self._owner is not None:
            self._owner.succeeded()

    def failed(self, error: BaseException) -> bool:
        """End with an error; say whether another attempt follows."""
        self.is_over = True
        return self._owner is not None and self._owner.failed(self, error)

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
        # Not by a token: what a framework runs before and after a `yield` may differ in context.
        _CURRENT_ATTEMPT.set(self._previous)
        if error is not None:
            return self.failed(error)
        if not self._is_deferred:
            self.succeeded()
        return False


def current_attempt() -> Attempt | None:
    """Return the attempt that this runs in; tasks may outlive the one that started them."""
    attempt = _CURRENT_ATTEMPT.get()
    while attempt is not None and attempt.is_over:
        attempt = attempt._outer
    return attempt
