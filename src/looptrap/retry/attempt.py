"""Attempts in progress: the owner of an attempt owns all retries inside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol, Self

from looptrap.retry.policy import Link

_CURRENT_ATTEMPT: ContextVar[Attempt | None] = ContextVar("looptrap_retry_attempt", default=None)


class AttemptOwner(Protocol):
    """Makes attempts, and is notified of their ends."""

    def succeeded(self) -> None:
        """Record a success."""
        ...

    def failed(self, attempt: Attempt, error: BaseException) -> bool:
        """Record a failure; return whether another attempt follows, or raise the final error."""
        ...


class Attempt:
    """One attempt, as a context: an error in it is suppressed if another attempt follows."""

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
        """Its link; None without a chain."""
        self.is_over = False
        self.no_retry_reason = ""
        """Why it must not be retried; empty where it may."""

    def forbid_retry(self, why: str) -> None:
        """Forbid the owner to retry this attempt."""
        self.no_retry_reason = self.no_retry_reason or why

    def forbid_all_retries(self, why: str) -> None:
        """Forbid all outer attempts to be retried, too: each would repeat the same call."""
        self.forbid_retry(why)
        if self._outer is not None:
            self._outer.forbid_all_retries(why)

    def defer(self) -> None:
        """Leave the context without an end: the result is awaited later, in the same attempt."""
        self._is_deferred = True

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Make this the current attempt during a part of the work."""
        previous = _CURRENT_ATTEMPT.get()
        _CURRENT_ATTEMPT.set(self)
        try:
            yield
        finally:
            _CURRENT_ATTEMPT.set(previous)

    def succeeded(self) -> None:
        """End with a success."""
        self.is_over = True
        if self._owner is not None:
            self._owner.succeeded()

    def failed(self, error: BaseException) -> bool:
        """End with an error; return whether another attempt follows."""
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
        # Not by a token: frameworks may resume after a `yield` in another context.
        _CURRENT_ATTEMPT.set(self._previous)
        if error is not None:
            return self.failed(error)
        if not self._is_deferred:
            self.succeeded()
        return False


def current_attempt() -> Attempt | None:
    """Return the attempt that this code runs in; tasks may outlive the one that started them."""
    attempt = _CURRENT_ATTEMPT.get()
    while attempt is not None and attempt.is_over:
        attempt = attempt._outer
    return attempt
